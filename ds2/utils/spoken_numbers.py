"""Numbers in figures as they are spoken, in English words: 1984 is a year, 3rd an ordinal, $5 a sum, 2.5 % a share."""

import re
import unicodedata
from collections.abc import Sequence

NAMED_DIGITS = 306  # of the longest number that num2words can name
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
SIGNS = "".join(MONEY)
SCALES = {"k": "thousand", "m": "million", "bn": "billion"}  # as in $5m
UNITS = {sign: names[:2] for sign, names in MONEY.items()} | {"¢": ("cent", "cents"), "°": ("degree", "degrees")}
MEASURES = {  # after a number
    "km/h": ("kilometer per hour", "kilometers per hour"), "mph": ("mile per hour", "miles per hour"),
    "km": ("kilometer", "kilometers"), "cm": ("centimeter", "centimeters"), "mm": ("millimeter", "millimeters"),
    "kg": ("kilogram", "kilograms"), "mg": ("milligram", "milligrams"), "ml": ("milliliter", "milliliters"),
    "ft": ("foot", "feet"), "yd": ("yard", "yards"), "mi": ("mile", "miles"), "oz": ("ounce", "ounces"),
    "lbs": ("pound", "pounds"), "lb": ("pound", "pounds"), "hrs": ("hour", "hours"), "hr": ("hour", "hours"),
    "min": ("minute", "minutes"), "sec": ("second", "seconds"), "bn": ("billion", "billion"),
}  # fmt: skip
SHARES = {"%": "percent", "‰": "per mille"}
DEGREES = {"c": "celsius", "f": "fahrenheit"}
PARTS = dict(zip("23456789", "half third quarter fifth sixth seventh eighth ninth".split(), strict=True)) | {
    "10": "tenth", "16": "sixteenth", "32": "thirty second", "64": "sixty fourth",
}  # fmt: skip
HALVED = ("2", "4", "8", "16", "32", "64")  # the parts of inches
DECADES = {f"{tens}0" for tens in range(2, 10)}
MONTHS = tuple("january february march april may june july august september october november december".split())
CAPITAL_MONTHS = "|".join(map(str.capitalize, MONTHS))
MONTHS_IN_FULL = {month[:3]: month.capitalize() for month in MONTHS}

# No pattern asks for a sign behind any number of digits: each would be sought from every digit, in quadratic time.
# No group is possessive, as (?:-1)*+ is: before Python 3.11.5 it may take half a group.
WEB = re.compile(  # www.bbc.co.uk/news, ds2.com
    r"(?<![\w.@-])(?:www(?:\.[\w-]++)+(?!\.[\w-])|[\w-]++(?:\.[\w-]++)*?\.(?:com|org|net|edu|gov|co\.uk))(?![\w@-])"
    r"(?:/[\w-]++)*"
)
SPOKEN = re.compile(r"[\d&@°]|\bwww\.|\.(?:com|org|net|edu|gov|co\.uk)\b")  # else nothing is to be said in words
BESIDE_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])|(?<=[¼-¾⅐-⅞])")
ADDRESS = re.compile(r"[<(\[\"',;:]*[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
AT = re.compile(r"@(?=\w)")
AND = re.compile(r"&(?:amp;|(?!#?\w{1,8};))")  # no other entity, such as &nbsp;
OPERATIONS = {"+": "plus", "=": "equals", "×": "times", "÷": "divided by"}
OPERATION = re.compile(rf"(?:(?<=[^\s+=] )|(?<=[\d%‰]))[+=×÷](?= ?[-−(]?[{SIGNS}]?\.?\d)")
MINUS = re.compile(rf"(?:(?<![^\s(\[\"'])(?<!\d )[-–]|− ?)(?=[{SIGNS}]?\.?\d)")  # neither a range nor within a word
TIME = re.compile(
    r"(?<![\d:.,/])(?:0?([1-9])|(1\d|2[0-3]))(?::|\.(?=\d\d ?[ap]\.? ?m\b))([0-5]\d)(?::(?P<seconds>[0-5]\d))?"
    r"(?![\d:/]|[.,]\d)(?: o'clock)?(?P<half>(?= ?[ap]\.? ?m\b))?",
    re.I,
)
# 3:1, but no verse such as John 3:8; times of day have two digits behind the colon.
RATIO = re.compile(r"(?<![\w:.,/])([A-Z][a-z]++ )?(\d++):(?=\d(?!\d|[:.,/–-]\d))")
# Spelled in digits where a part begins with a zero, and telephones: 007, 00, 555-0199; not within a longer number, a
# time or a share.
CODE = re.compile(rf"(?<![\d.,:/⁄{SIGNS}])(?<!\d-)\d++(?:-\d++)*(?![-:/⁄.,]\d| ?[%‰]|(?:st|nd|rd|th)\b)")
RANGE = re.compile(  # 10-20, 1,500-2,000; not of a chain such as 2020-01-05, nor 3:10-12
    rf"(?<![\w.,:/⁄{SIGNS}–-])(?<!\d )(?P<first>[1-9]\d*+(?:,\d{{3}})*(?:\.\d++)?)[-–]"
    r"(?P<last>[1-9]\d*+(?:,\d{3})*(?:\.\d++)?)(?![.,:/⁄–-]\d|(?:st|nd|rd|th)\b)"
)
PHONE = re.compile(r"(?:1-)?\d{3}-\d{3}-\d{4}|\d{3}-\d{2}(?!00)\d\d")  # 555-1234; 500-1000 is a range
NATIONAL = re.compile(r"(?<![\d.,:/+-])(?<!\d )0\d{2,4}(?: \d{3,4}){1,2}(?! ?\d|[.,:/-]\d)")  # 020 7946 0000
AREA_CODE = re.compile(r"\((\d{3})\) ?(?=\d{3}-\d{4}(?!\d))")
MONTH = re.compile(  # Jan. 5, SEPT 11
    r"\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|JAN|FEB|MAR|APR|JUN|JUL|AUG|SEPT?|OCT|NOV|DEC)\b\.?(?= \d)"
)
DAY = re.compile(  # May 5, 2021, and on May 5; in March 20 people came
    r"(?P<before>\b(?:[Oo]n|[Bb]y|[Uu]ntil|[Ss]ince|[Ff]rom|[Bb]efore|[Aa]fter) )?"
    rf"\b(?:{CAPITAL_MONTHS}) "
    r"(?:[12]\d|3[01]|[1-9])(?![\d/:–-]|[.,]\d| ?[%‰]|st|nd|rd|th)(?P<after>(?=[,.;:!?)]|$))?"
)
DAY_FIRST = re.compile(  # 3 June; 3 May 1984, on 3 May; not in 7 March on
    r"(?P<before>\b(?:[Oo]n|[Bb]y|[Uu]ntil|[Ss]ince|[Ff]rom|[Tt]o|[Tt]he|[Bb]efore|[Aa]fter) )?(?<!\d )"
    rf"(?<![\d.,:/{SIGNS}-])(?P<day>[12]?[1-9]|[123]0|31) (?P<month>{CAPITAL_MONTHS})\b(?P<after>,? [1-9]\d{{3}}\b)?"
)
YEAR = re.compile(  # May 1066; May 5th, 1066; neither May 1,066 nor May 1066.5
    rf"(?P<month>\b(?:{CAPITAL_MONTHS}) (?:\d\d?(?:st|nd|rd|th)?,? )?)"
    r"(?P<century>[1-9]\d)(?P<year>\d\d)(?![\d:/–-]|[.,]\d| ?[%‰])"
)
NUMBER_SIGN = re.compile(r"(?:\bNo\. ?|(?<!\w)#)(?=\d)")
THIN_SPACES = re.compile(r"(?<!\d)\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)")  # between thousands
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?: 000)+(?!\d)")
INDIAN = re.compile(r"(?<![\d.,])[1-9]\d?(?:,\d\d){1,4},\d{3}(?!,?\d)")  # 1,00,000
DECIMAL_COMMA = re.compile(  # 10,00 and €3,50; neither a list nor 1,00,000
    rf"(?P<before>[{SIGNS}] ?)?(?<![\d.,])\d++,(?=(?P<part>\d\d)(?![,.]?\d)(?P<after> ?[{SIGNS}])?)"
)
DOTTED = re.compile(r"(?<![\d.,])\d++(?:\.\d++){2,}(?!\.?\d)")  # 1.0.2, 192.168.0.1
FRACTION = re.compile(  # 1/2, 2 5/6, 2/5 of them, but neither 25/12/2020 nor 2/5; NFKC writes ¾ as 3⁄4
    r"(?:(?<=\d)(?<![/⁄]\d)(?<![/⁄]\d\d)(?P<mixed>[ -])|(?<![\w/⁄.,:]))"
    r"(?P<top>[1-9]\d?)(?P<bar>[/⁄])(?P<bottom>10|16|32|64|[2-9])(?![\w/⁄]|[.,:]\d)(?P<percent> ?%)?(?P<of>(?= of ))?"
)
SUMS = re.compile(rf"(?<!\d)([{SIGNS}]) ?(\d{{1,3}}(?:,\d{{3}})+|\d++)[-–](?=[1-9]\d*+(?!-\d))")  # $5-10
SUM = re.compile(
    rf"(?i)(?<!\d)(?P<sign>[{SIGNS}]) ?(?P<number>{NUMBER}|\.\d+)"
    r"(?:(?:[ -]?(?P<scale>hundred|thousand|million|billion|trillion)|(?P<short>k|m|bn))\b)?"
)
UNIT = re.compile(rf"(?:(?<![\d.,])(?P<one>1)|(?<=\d)|(?=°)) ?(?P<sign>[{SIGNS}¢]|°(?: ?(?P<degrees>[CF])\b)?)", re.I)
MEASURE = re.compile(rf"(?:(?<![\d.,])(?P<one>1)|(?<=\d)) ?(?P<unit>{'|'.join(MEASURES)})\b")
FIGURES = re.compile(
    rf"(?i)(?P<number>{NUMBER}|(?<![\w.])\.\d+)(?:(?P<ordinal>(?:st|nd|rd|th)\b)| ?(?P<share>[%‰])|(?P<plural>'?s\b))?"
)


def english_numbers(text: str) -> str:
    """3rd -> third; $3.50 -> three dollars and fifty cents; -2.50% -> minus two point five zero percent.

    Signs that are spoken beside numbers become words as well, and so do & and the @ and the dots of an address.
    """
    if not text.isascii():
        text = BESIDE_VULGAR.sub(" ", THIN_SPACES.sub(lambda match: ",".join(re.findall(r"\d+", match[0])), text))
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    if not SPOKEN.search(text):
        return text
    text = WEB.sub(lambda match: match[0].replace(".", " dot ").replace("/", " slash "), text)
    text = DAY_FIRST.sub(_day_first, DAY.sub(_day, MONTH.sub(_month_in_full, text)))
    text = YEAR.sub(_year_after_month, text)
    text = _symbols(NUMBER_SIGN.sub("number ", text))
    text = TIME.sub(_time, text)  # like the next, it leaves smaller numbers to the last
    text = RATIO.sub(lambda match: match[0] if match[1] else f"{match[2]} to ", text)
    text = THOUSANDS.sub(lambda match: match[0].replace(" ", ","), text)
    text = INDIAN.sub(lambda match: match[0].replace(",", ""), text)
    text = DECIMAL_COMMA.sub(_decimal_point, text)
    text = RANGE.sub(
        _range, AREA_CODE.sub(r"\1-", NATIONAL.sub(lambda match: " ".join(match[0].replace(" ", "")), text))
    )
    text = CODE.sub(_spelled, text)
    text = DOTTED.sub(lambda match: match[0].replace(".", " point "), text)
    text = FRACTION.sub(_fraction, text)
    text = SUMS.sub(lambda match: f" {_cardinal(match[2].replace(',', ''))} to {match[1]}", text)
    text = SUM.sub(_spoken_money, text)
    text = UNIT.sub(_unit, text)
    text = MEASURE.sub(lambda match: _counted(match["one"], MEASURES[match["unit"]]), text)
    return FIGURES.sub(_spoken_figures, text)


def _symbols(text: str) -> str:
    """R&D, -5, 1 + 1 = 2, bob@example.com: the signs as words."""
    if "@" in text:
        text = AT.sub(" at ", " ".join(map(_spoken_address, text.split(" "))))
    text = AND.sub(" and ", text)
    text = OPERATION.sub(lambda match: f" {OPERATIONS[match[0]]} ", text)
    return MINUS.sub(" minus ", text)


def _spoken_address(token: str) -> str:
    """bob@example.com. -> bob at example dot com."""
    match = ADDRESS.match(token)
    return match[0].replace("@", " at ").replace(".", " dot ") + token[match.end() :] if match else token


def _month_in_full(match: re.Match[str]) -> str:
    """Sept. -> September."""
    return MONTHS_IN_FULL[match[0][:3].lower()]


def _day(match: re.Match[str]) -> str:
    """May 5, -> May 5th,"""
    dated = match["before"] is not None or match["after"] is not None
    return f"{match[0]}th" if dated else match[0]


def _day_first(match: re.Match[str]) -> str:
    """3 May 1984 -> 3rd May 1984, which has an ordinal; May and March begin sentences, too."""
    day, dated = int(match["day"]), match["before"] is not None or match["after"] is not None
    if not dated and match["month"] in ("March", "May"):
        return match[0]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
    return f"{match['before'] or ''}{day}{ending} {match['month']}{match['after'] or ''}"


def _year_after_month(match: re.Match[str]) -> str:
    """May 1066 -> May 10 66; others are read as years anywhere, or have no hundreds to name."""
    century, year = match["century"], match["year"]
    if _is_year(century + year) or year == "00" or century[1] == "0" == year[0]:
        return match[0]
    return f"{match['month']}{century} {_past_hour(year)}"


def _time(match: re.Match[str]) -> str:
    """2:30 -> 2 30; 2:05:00 -> 2 oh 5 0 0; 3:00 -> 3 o'clock, but 3:00 p.m. -> 3 p.m.; 15:00 -> 15 hundred."""
    hour, minutes, seconds = match[1] or match[2], match[3], match["seconds"]
    if seconds:
        past = f"{_past_hour(minutes)} {_past_hour(seconds)}"
    elif minutes == "00":
        past = "" if match["half"] is not None else "o'clock" if int(hour) <= 12 else "hundred"
    else:
        past = _past_hour(minutes)
    return f" {hour} {past} "


def _past_hour(figures: str) -> str:
    """05 -> oh 5; 00 -> 0 0."""
    return "0 0" if figures == "00" else figures.replace("0", "oh ") if figures[0] == "0" else figures


def _decimal_point(match: re.Match[str]) -> str:
    """10,00 -> 10.00, and €3,50 -> €3.50, but not 10,50, which may be two numbers."""
    is_decimal = match["before"] or match["after"] or match["part"][0] == "0"
    return match[0].replace(",", ".") if is_decimal else match[0]


def _range(match: re.Match[str]) -> str:
    """10-20 -> 10 to 20, and 1914-18 -> 1914 to 18, but neither 20-10 nor a telephone's."""
    first, last = (float(match[end].replace(",", "")) for end in ("first", "last"))
    if _is_year(match["first"]) and len(match["last"]) == 2:
        first %= 100
    return match[0] if first >= last or is_code(match[0]) else f"{match['first']} to {match['last']}"


def _spelled(match: re.Match[str]) -> str:
    """007 -> 0 0 7; 555-1234 -> 5 5 5 1 2 3 4."""
    return " ".join(match[0].replace("-", "")) if is_code(match[0]) else match[0]


def is_code(figures: str) -> bool:
    """Whether it is a telephone's, or a part is 00, or has three digits or more and begins with a zero.

    No number begins so, and no part of a date.
    """
    parts = figures.split("-")
    return bool(PHONE.fullmatch(figures)) or any(part == "00" or (part[0] == "0" and len(part) > 2) for part in parts)


def _fraction(match: re.Match[str]) -> str:
    """1/2 -> 1 half; 2 1/2 -> 2 and a half; 3/4 -> 3 quarters."""
    top, bottom = match["top"], match["bottom"]
    small = int(top) < int(bottom)
    # A day of a month looks the same: 2/5. The others are fractions, if they cannot be reduced.
    sure = small and (bottom == "3" or (bottom in HALVED and int(top) % 2 == 1))
    if match["bar"] == "/" and not (sure or (small and (match["mixed"] or match["of"] is not None))):
        return match[0]
    part = PARTS[bottom]
    if top != "1":
        part = "halves" if part == "half" else f"{part}s"
    elif match["mixed"]:
        top = "a"
    return f" {'and ' if match['mixed'] else ''}{top} {part} {'percent' if match['percent'] else ''} "


def _spoken_money(match: re.Match[str]) -> str:
    """$3.50 -> three dollars and fifty cents; $1.5m -> one point five million dollars; $.50 -> fifty cents."""
    unit, units, cent, cents = MONEY[match["sign"]]
    whole, point, decimals = match["number"].replace(",", "").partition(".")
    scale = match["scale"] or SCALES.get((match["short"] or "").lower(), "")
    if scale or (point and len(decimals) != 2):
        fraction = f" point {_digits(decimals)}" if point else ""
        return f" {_cardinal(whole or '0')}{fraction} {scale} {units} "
    parts = [(whole.lstrip("0"), unit, units), (decimals.lstrip("0"), cent, cents)]
    said = [f"{_cardinal(number)} {one if number == '1' else many}" for number, one, many in parts if number]
    return f" {' and '.join(said) or f'zero {units}'} "


def _unit(match: re.Match[str]) -> str:
    """5 € -> 5 euros; 1° -> 1 degree; 20 °C -> 20 degrees celsius."""
    unit = _counted(match["one"], UNITS[match["sign"][0]])
    return f"{unit} {DEGREES[match['degrees'].lower()] if match['degrees'] else ''} "


def _counted(one: str | None, names: Sequence[str]) -> str:
    """1 and "kilometer" after a one, else "kilometers"."""
    return f"1 {names[0]} " if one else f" {names[1]} "


def _spoken_figures(match: re.Match[str]) -> str:
    """1,234 -> one thousand, two hundred and thirty-four; 1990s -> nineteen nineties; 5th -> fifth; 5% a share."""
    from num2words import num2words  # which only texts with figures need

    whole, point, decimals = match["number"].replace(",", "").partition(".")
    ordinal, plural = match["ordinal"] or "", match["plural"] or ""
    if ordinal and not point and len(whole) <= NAMED_DIGITS:
        return f" {num2words(int(whole), to='ordinal')} "
    is_year = _is_year(match["number"])
    spoken = num2words(int(whole), to="year") if is_year else _cardinal(whole) if whole else ""
    if plural and (match["number"] in DECADES or (is_year and whole.endswith("0"))):
        return f" {spoken[:-1]}ies " if spoken.endswith("y") else f" {spoken}s "
    if point:
        spoken += f" point {_digits(decimals)}"
    return f" {spoken} {SHARES.get(match['share'], ordinal or plural)} "


def _is_year(number: str) -> bool:
    """Whether four figures are a year even without a month."""
    return len(number) == 4 and number.isdigit() and "1100" <= number <= "2099"


def _cardinal(number: str) -> str:
    """123 -> one hundred and twenty-three; digit by digit where there is no name for it."""
    from num2words import num2words

    return str(num2words(int(number))) if len(number) <= NAMED_DIGITS else _digits(number)


def _digits(number: str) -> str:
    """50 -> five zero."""
    return " ".join(_cardinal(digit) for digit in number)
