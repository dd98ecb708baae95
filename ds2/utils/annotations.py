"""Annotations in transcripts, of sounds that are no words: <unk>, [laughter], (background noise)."""

import re

SOUNDS = frozenset(
    """
    applause audio beep bell bells blank breath breathing breaths cheer cheering cheers chuckle chuckles chuckling clap
    claps clapping clears cough coughing coughs cries cross crosstalk crying exhale exhales footsteps gasp gasping gasps
    giggle giggles giggling groan groaning groans hum humming hums inaudible indiscernible inhale inhales laugh laughing
    laughs laughter lipsmack moan moaning moans music noise noises nonverbal overlap pause pauses phone ringing scream
    screaming screams sigh sighing sighs sil silence silent sneeze sneezes sneezing sniff sniffing sniffs snoring
    sobbing sobs spn static throat unclear unintelligible unk unknown vocalized whispering whispers whistle whistles
    whistling yawn yawns 咳嗽 噪声 噪音 呼吸 掌声 笑 笑声 静音 音乐
    """.split()
)
ABOUT_SOUNDS = frozenset(  # beside them
    """
    a and audience background brief crowd deep end faint heavy human in indistinct inhuman light long loud mouth no of
    playing quiet short soft softly some sound speaker speech spoken start the word words
    """.split()
)
# Neither <j.doe@example.com> nor <红楼梦>; a<b and 3 < 5 are no tags either.
ANGLE = re.compile(r"<(?:/|\|)?[A-Za-z][A-Za-z0-9_-]*(?:/|\|)?>")
SQUARE = re.compile(r"\[([^][]{1,60})\]")
ROUND = re.compile(r"\(([^()]{1,60})\)")
TIME_STAMP = re.compile(r"\d+(?::\d\d)+")  # [inaudible 00:12:05]


def without_annotations(text: str, round_brackets: bool = True) -> str:
    """Leaves out tags in angle brackets, and names of sounds in square and in round ones; other words stay as written.

    [BLANK_AUDIO], (loud music) and [inaudible 00:12:05] are left out, {um} and (whatever) are not.
    """
    if "<" in text:
        text = ANGLE.sub(" ", text)
    if "[" in text:
        text = SQUARE.sub(_without_sound, text)
    if round_brackets and "(" in text:
        text = ROUND.sub(_without_sound, text)
    return text


def _without_sound(match: re.Match[str]) -> str:
    words = [word.strip(".,!") for word in re.split(r"[\s_-]+", match[1].lower())]
    words = [word for word in words if word and not TIME_STAMP.fullmatch(word)]
    is_sound = not SOUNDS.isdisjoint(words) and SOUNDS.union(ABOUT_SOUNDS).issuperset(words)
    return " " if is_sound else match[0]
