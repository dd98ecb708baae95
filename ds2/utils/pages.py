"""Pages of HTML that hold all that they show."""

import base64
import html
import re
from collections.abc import Mapping


def as_html(value: object) -> str:
    """A value as HTML; whatever comes from a manifest, a model, a run or a file's name goes through here."""
    return html.escape(str(value))


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with the part NAME in the place of each {{NAME}}, whatever stands in the parts."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def player(kind: str, sound: bytes) -> str:
    """A player with the sound in the page itself, a file of this MIME type."""
    return f'<audio controls src="data:{as_html(kind)};base64,{base64.b64encode(sound).decode()}"></audio>'
