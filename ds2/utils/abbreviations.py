"""English abbreviations as they are spoken, in full: Mr. Smith, St. John's St., Lt. Col., 9am."""

import re

ALWAYS = {
    "mr": "mister", "mrs": "missus", "vs": "versus", "etc": "et cetera", "jr": "junior", "sr": "senior",
    "ave": "avenue", "blvd": "boulevard", "vol": "volume", "ph.d": "phd",
}  # fmt: skip
BEFORE_NAMES = {
    "dr": "doctor", "prof": "professor", "rev": "reverend", "mt": "mount", "ft": "fort", "st": "saint",
    "lt": "lieutenant", "capt": "captain", "sgt": "sergeant", "gen": "general", "col": "colonel",
    "sen": "senator", "gov": "governor",
}  # fmt: skip
WORDS = ALWAYS | BEFORE_NAMES
BEGINS, ENDS = r"(?<![^\W\d_])", r"(?![^\W\d_])"  # no letter beside it; figures are words of their own, as in pm5
HALF_DAY = re.compile(rf"(?:(?<=\d) ?(?P<half>[ap])|{BEGINS}p)\.?m{ENDS}", re.I)  # 9am, 9 A.M, pm; not I am
# Elm St. and 42nd St.; a saint is before a capitalised word.
STREET = re.compile(r"(?P<name>(?<![\w'])(?:[A-Z][\w']*+(?= St\b\.?+(?! [A-Z]))|\d++(?:st|nd|rd|th))) St\b\.?")
# In capitals only with a stop: not an MR scan. Some are words or names without a stop, and other words before small
# letters: Elm Dr., 5 ft. tall, Gen X.
ABBREVIATION = re.compile(
    rf"{BEGINS}(?:Mrs?|MRS?(?=\.)|(?i:etc)|vs|Ave(?=\.)|[Vv]ol(?=\. ?\d)|Ph\. ?D|Blvd|Jr|JR(?=\.)|S[rR](?=\.)|"
    r"(?:(?:Dr|Mt|(?<!\d )Ft|St|Lt|Capt|Sgt)(?=\.?\s[A-Z])|(?:Prof|Rev|Gen|Col|Sen|Gov)(?=\.\s[A-Z])|"
    rf"(?:DR|MT|(?<!\d )FT|ST|LT|CAPT|SGT|PROF|REV|GEN|COL)(?=\.\s[A-Z]))){ENDS}\.?"
)
UNTIL = re.compile(
    r"(?<=\d [ap]\.m)\.? ?[-–—] ?(?=\d\d?(?:[:.]\d\d)? [ap]\.m)", re.I
)  # 9 a.m – 5 p.m: from one to the other

TODAY = re.compile(r"(?<![\w-])(to)-(?=(?:day|night|morrow)\b)", re.I)  # as it was written once; not day-to-day


def without_abbreviations(text: str) -> str:
    """Titles and the like in full: Dr. Smith -> doctor Smith; 9am-5pm -> 9 a.m to 5 p.m, whose letters are spoken;
    to-day -> today."""
    text = HALF_DAY.sub(lambda match: f" {match['half'] or 'p'}.m", text)
    text = UNTIL.sub(" to ", text)
    text = TODAY.sub(r"\1", text)
    if " St" in text:
        text = STREET.sub(r"\g<name> street", text)
    return ABBREVIATION.sub(_in_full, text)


def _in_full(match: re.Match[str]) -> str:
    """Mr.Smith -> mister Smith; King Jr.'s -> King junior's."""
    following = match.string[match.end() : match.end() + 1]
    return WORDS[match[0].rstrip(".").lower().replace(" ", "")] + (" " if following.isalnum() else "")
