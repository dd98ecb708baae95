"""deploy/release.py: what the SBOM says of a wheel. tests/release.sh builds whole releases."""

import json
import runpy
from pathlib import Path
from zipfile import ZipFile

RELEASE = runpy.run_path(str(Path(__file__).parents[2] / "deploy" / "release.py"))
METADATA = """\
Metadata-Version: 2.4
Name: some-speech
Version: 1.2.3
License-Expression: Apache-2.0
Provides-Extra: serve
Provides-Extra: dev
Requires-Dist: rich>=10
Requires-Dist: numpy; sys_platform == "nowhere"
Requires-Dist: uvicorn; extra == "serve"
Requires-Dist: pytest; extra == "dev"
"""


def test_the_sbom_holds_what_a_wheel_brings_along(tmp_path: Path) -> None:
    """Rich with what it needs itself; of the extras what is for users; nothing that the platform leaves out."""
    wheel = tmp_path / "some_speech-1.2.3-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("some_speech-1.2.3.dist-info/METADATA", METADATA)
    text = RELEASE["bill_of_materials"](wheel, 0)
    bill = json.loads(text)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/some-speech@1.2.3"
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert scopes == dict.fromkeys(("rich", "markdown-it-py", "mdurl", "pygments"), "required") | dict.fromkeys(
        ("uvicorn", "click", "h11"), "optional"
    )
    needs = {each["ref"].partition("@")[0]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert [each.partition("@")[0] for each in needs["pkg:pypi/some-speech"]] == ["pkg:pypi/rich", "pkg:pypi/uvicorn"]
    assert [each.partition("@")[0] for each in needs["pkg:pypi/markdown-it-py"]] == ["pkg:pypi/mdurl"]
    assert all(each["licenses"] for each in bill["components"])
    assert text == RELEASE["bill_of_materials"](wheel, 0)
