"""Numbers in figures as they are spoken, in words: 1984 is a year, 3rd an ordinal, 2.5 % a share."""

import re
import unicodedata

NAMED_DIGITS = 306  # of the longest number that num2words can name
MANDARIN_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
DATE = r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)"
RANGE = r"(?<![\d-])(\d{1,6}[年月日%]?) ?[-–—~] ?(?=(?!0\d)\d{1,6}(?![\d-]))"  # not 010-12345678, nor 1-2-3


def english_numbers(text: str) -> str:
    """3rd -> third; 1,234 -> one thousand, two hundred and thirty-four; 2.50% -> two point five zero percent."""

    def words(match: re.Match[str]) -> str:
        from num2words import num2words  # which only texts with figures need

        whole, point, decimals = match["number"].replace(",", "").partition(".")
        ordinal = match["ordinal"] or ""
        if ordinal and not point and len(whole) <= NAMED_DIGITS:
            return f" {num2words(int(whole), to='ordinal')} "
        spoken = num2words(int(whole), to="year") if _is_year(match["number"]) else _cardinal(whole)
        if point:
            spoken += f" point {_digits(decimals)}"
        return f" {spoken} {'percent' if match['percent'] else ordinal} "

    text = unicodedata.normalize("NFKC", text)
    pattern = r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?:(?P<ordinal>st|nd|rd|th)\b|(?P<percent> ?%))?"
    return re.sub(pattern, words, text, flags=re.IGNORECASE)


def _is_year(number: str) -> bool:
    return len(number) == 4 and number.isdigit() and "1100" <= number <= "2099"


def _cardinal(number: str) -> str:
    """123 -> one hundred and twenty-three; digit by digit where there is no name for it."""
    from num2words import num2words

    return str(num2words(int(number))) if len(number) <= NAMED_DIGITS else _digits(number)


def _digits(number: str) -> str:
    """50 -> five zero."""
    return " ".join(_cardinal(digit) for digit in number)


def mandarin_numbers(text: str) -> str:
    """1,234 -> 一千二百三十四; 3.5% -> 百分之三点五; 3-5 -> 三到五; 2021-05-03 -> 二零二一年五月三日."""
    import cn2an

    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(DATE, r"\1年\2月\3日", text)  # cn2an would say minus and fractions
    text = re.sub(RANGE, r"\1到", text)
    text = re.sub(r"\d{17,}", lambda match: match[0].translate(MANDARIN_DIGITS), text)  # beyond cn2an: digit by digit
    return str(cn2an.transform(text, "an2cn"))
