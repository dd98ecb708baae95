"""The languages whose texts commands normalise."""

from ds2.utils.errors import ParameterError

# The two-letter codes of ISO 639-1.
CODES = frozenset(
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo "
    "es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka "
    "kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng "
    "nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)


def check_text_language(language: str | None) -> None:
    """Refuses what is no language, a slip such as eng or zh-CN, for which numbers would silently stay figures.

    Raises:
        ParameterError: neither a code of ISO 639-1 nor "other".
    """
    if language is not None and language != "other" and language not in CODES:
        known = "en and zh, whose numbers are written as words, another code of ISO 639-1 such as de, or other"
        raise ParameterError("language", f"{language:.40}: not a known language; expected {known}")
