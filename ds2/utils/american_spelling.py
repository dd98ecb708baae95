"""British spellings of English words -> American ones: favourite, theatre, organised -> favorite, theater, organized.

Only words that both sides spell in their own way; what also sounds otherwise, as maths and math, stays.
"""

import re

_OUR = "arm behavi cand clam col endeav fav ferv flav glam harb hon hum lab neighb od parl ranc rum sav savi splend vap"
_RE = "calib cent fib lit lust meag (?:centi|kilo|milli)?met somb spect theat"
_DOUBLED = (
    "cancel channel counsel enamel equal fuel grovel jewel label level marvel model panel pedal quarrel rival shovel "
    "signal total travel tunnel unravel"
)
_RULES = (
    (re.compile(rf"^((?:dis|mis|un)?(?:{_OUR.replace(' ', '|')}))our"), r"\1or"),
    (re.compile(rf"^({_RE.replace(' ', '|')})re(?=s?$)"), r"\1er"),
    (re.compile(rf"^((?:{_DOUBLED.replace(' ', '|')}))l(?=ed$|ing$|ers?$)"), r"\1"),
    (re.compile(r"^(\w{3,})is(?=e[drs]?$|ers$|ing$|ations?$)"), r"\1iz"),
    (re.compile(r"^((?:anal|catal|paral))ys(?=e[drs]?$|ing$)"), r"\1yz"),
)
_WORDS = {
    "aluminium": "aluminum", "cheque": "check", "cosy": "cozy", "defence": "defense", "draught": "draft",
    "enquiry": "inquiry", "fulfil": "fulfill", "grey": "gray", "jewellery": "jewelry", "judgement": "judgment",
    "licence": "license", "mould": "mold", "moustache": "mustache", "offence": "offense", "okay": "ok",
    "plough": "plow", "practise": "practice", "practised": "practiced", "practising": "practicing",
    "programme": "program", "pyjamas": "pajamas", "sceptical": "skeptical", "skilful": "skillful", "sulphur": "sulfur",
    "tyre": "tire",
}  # fmt: skip


def in_american(word: str) -> str:
    """The American spelling of a word in small letters; other words as they are."""
    if word in _WORDS:
        return _WORDS[word]
    if word.endswith("s") and word[:-1] in _WORDS:
        return _WORDS[word[:-1]] + "s"
    for pattern, american in _RULES:
        word, changed = pattern.subn(american, word)
        if changed:
            break
    return word
