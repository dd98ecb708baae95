"""The files that the page saves."""

import json
from pathlib import Path

from helpers.node import in_node, with_node

SCRIPT = """
import { written } from "PAGE/transcript.js";
console.log(JSON.stringify(cases.map(([format, utterances]) => written[format](utterances))));
"""


def word(text: str, start: float, display: str | None = None) -> dict[str, object]:
    shown = {} if display is None else {"display": display}
    return {"word": text, "conf": 0.9, "start": start, "end": start + 0.5, **shown}


@with_node
def test_people_read_punctuation_and_figures_and_json_has_the_plain_text_too(tmp_path: Path) -> None:
    said = [word("twenty", 1.0, "25"), word("five", 1.5, ""), word("men", 2.0, "men.")]
    plain = [word("one", 4.0), word("two", 4.5)]
    cases = [[name, [said, plain]] for name in ("txt", "srt", "json")]
    txt, srt, values = in_node(SCRIPT, cases, tmp_path, "ds2.serve")
    assert txt == "25 men.\none two\n"
    assert srt.startswith("1\n00:00:01,000 --> 00:00:02,500\n25 men.\n\n2\n")
    found = json.loads(values)
    assert (found["text"], found["display"]) == ("twenty five men one two", "25 men. one two")
    assert [each.get("display") for each in found["words"]] == ["25", "", "men.", None, None]
