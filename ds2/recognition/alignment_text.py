"""The text of an alignment: the words that the model aligns, and how the user wrote and divided them."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ds2.ctc.array_alignment import STAR
from ds2.text import IDEOGRAPH, Tokenizer, is_ideograph, normalize, split_words
from ds2.utils.errors import InputError
from ds2.utils.roman_numerals import ROMAN, roman_value

STAR_WORD = "*"  # in a transcript: speech that is not transcribed
UNITS = f"{IDEOGRAPH}[^\\w\\s]*|(?:(?!{IDEOGRAPH})\\S)+"  # an ideograph and its punctuation; what is between
HEADING = re.compile(rf"((?:act|book|canto|chapter|letter|part|scene|sonnet)\s+)?({ROMAN})[.:]?", re.IGNORECASE)
WRAPPED_COLUMNS = 60  # longer lines than this may be those of an editor
WRAPPED_SHARE = 0.9  # of the lines without room for the next word: an editor wrapped them


@dataclass(frozen=True)
class TextLine:
    """A line of the text.

    Attributes:
        words: normalised, and stars.
        forms: how the user wrote each word of a transcript; empty where an earlier word shows it, as in numbers.
        ends: whether the line was meant to end there.
        number: of the line in the text, from 1.
    """

    words: list[str]
    forms: list[str]
    ends: bool
    number: int


def read_lines(tokenizer: Tokenizer, text: str, language: str) -> list[TextLine]:
    """The lines that hold words or stars.

    Raises:
        InputError: no words, or a character that the model lacks.
    """
    raw = text.splitlines()
    wrapped = _is_wrapped(raw)
    lines = []
    for number, (line, following) in enumerate(itertools.zip_longest(raw, raw[1:], fillvalue=""), 1):
        words, forms = _heading(line, language)
        for are_stars, group in itertools.groupby([] if words else line.split(), key=STAR_WORD.__eq__):
            parts = list(group)
            own = parts if are_stars else normalize(" ".join(parts), language).split()
            words += own
            forms += [] if are_stars else _forms(own, parts, language)
        if words:
            words = [word if word == STAR_WORD else tokenizer.without_accents(word) for word in words]
            _check_alphabet(tokenizer, number, words)
            lines.append(TextLine(words, forms, not (wrapped and following.strip()), number))
    if not any(line.forms for line in lines):
        raise InputError("the transcript holds no words")
    return lines


def _heading(line: str, language: str) -> tuple[list[str], list[str]]:
    """Words and forms of an English line that is a Roman numeral in capitals, or a chapter's; of others nothing."""
    found = HEADING.fullmatch(line.strip())
    if found is None or not found[2].isupper() or not language.startswith("en"):
        return [], []
    named, spoken = (found[1] or "").split(), normalize(str(roman_value(found[2])), language).split()
    return [*(word.lower() for word in named), *spoken], [*named, line.split()[-1], *[""] * (len(spoken) - 1)]


def to_tokens(tokenizer: Tokenizer, lines: Sequence[TextLine], skip: bool) -> list[int]:
    """L tokens, and STAR for each star, with a space between words if the alphabet has one.

    A star needs no spaces beside it: it stands for them too. `skip` puts stars before, after and between the lines.
    """
    words = [word for line in lines for word in [*([STAR_WORD] if skip else []), *line.words]]
    space = tokenizer.encode(" ") if " " in tokenizer.index else []
    tokens: list[int] = []
    for before, word in itertools.pairwise([STAR_WORD, *words, *([STAR_WORD] if skip else [])]):
        if word == STAR_WORD:
            tokens.append(STAR)
        else:
            tokens += [*([] if before == STAR_WORD else space), *tokenizer.encode(word)]
    return tokens


def _forms(words: list[str], parts: list[str], language: str) -> list[str]:
    """A form for each normalised word.

    Punctuation that stands alone goes to the word before it, or to the first word.
    """
    forms: list[str] = []
    found: list[str] = []
    before = ""
    for part in parts:
        for unit, space in zip(re.findall(UNITS, part), itertools.chain([" "], itertools.repeat("")), strict=False):
            own = split_words(normalize(unit, language))
            found += own
            shown = before + space + unit if before else unit
            if own:
                forms += [shown, *[""] * (len(own) - 1)]
                before = ""
            elif forms:
                last = max(place for place, form in enumerate(forms) if form)
                forms[last] += space + unit
            else:
                before = shown
    # The parts one by one may not give the words of the whole line, as "May" and "5," do: "may fifth".
    plain = split_words(" ".join(words))
    return forms if found == plain else _matched_forms(found, forms, plain)


def _matched_forms(found: list[str], forms: list[str], plain: list[str]) -> list[str]:
    """Forms of the plain words from those of the words that were found, most of which are the same."""
    matched: list[str] = []
    for kind, first, past, begin, end in SequenceMatcher(None, found, plain).get_opcodes():
        shown = [form for form in forms[first:past] if form]
        if kind == "equal":
            matched += forms[first:past]
        elif end > begin and (shown or matched):  # the first word shows what others were made of
            matched += [" ".join(shown), *[""] * (end - begin - 1)]
        elif shown and matched:
            last = max(place for place, form in enumerate(matched) if form)
            matched[last] = " ".join([matched[last], *shown])
        else:
            matched += plain[begin:end]
    return matched


def _is_wrapped(lines: list[str]) -> bool:
    """Whether an editor divided the text into lines: hardly one has room for the first word of the next."""
    columns = max(map(len, lines), default=0)
    pairs = [(line, following) for line, following in itertools.pairwise(lines) if line.strip() and following.strip()]
    full = sum(len(line) + 1 + len(following.split()[0]) > columns for line, following in pairs)
    return columns > WRAPPED_COLUMNS and full >= max(1, WRAPPED_SHARE * len(pairs))


def _check_alphabet(tokenizer: Tokenizer, line: int, words: list[str]) -> None:
    """Raises InputError where the model lacks a character of a word."""
    for word in words:
        unknown = tokenizer.unknown(word) if word != STAR_WORD else set()
        if any(character.isdigit() for character in unknown):
            hint = "name the language (en or zh) to read numbers as words, or spell them out"
        elif any(map(is_ideograph, unknown)) and not tokenizer.ideographs:
            hint = "take a model of its language"
        else:
            hint = "spell it with the model's characters, or put * in its place"
        if unknown:
            lacking = "".join(dict.fromkeys(character for character in word if character in unknown))
            raise InputError(f"line {line} of the text: {word!r}: the model does not know {lacking!r}; {hint}")
