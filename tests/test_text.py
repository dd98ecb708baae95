"""Alphabets and the normal form of transcripts."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds2.text import BLANK_TOKEN, MOST_MARKS, Tokenizer, join_words, normalize, split_words
from ds2.utils.errors import InputError


def test_alphabet_of_a_corpus_is_sorted_behind_the_blank() -> None:
    tokenizer = Tokenizer.from_texts(["b a", "cab"])
    assert tokenizer.tokens == (BLANK_TOKEN, " ", "a", "b", "c")
    assert len(tokenizer) == 5
    assert tokenizer.encode("cab b") == [4, 2, 3, 1, 3]
    assert tokenizer.decode([4, 2, 3]) == "cab"


def test_an_alphabet_of_single_words_has_the_space() -> None:
    """Without it no search for words would find them."""
    assert Tokenizer.from_texts(["no", "on"]).tokens == (BLANK_TOKEN, " ", "n", "o")
    assert Tokenizer.from_texts(["你好", "on"]).tokens == (BLANK_TOKEN, "n", "o", "你", "好")


@given(st.text())
def test_encoding_loses_nothing(text: str) -> None:
    tokenizer = Tokenizer.from_texts([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert 0 not in tokenizer.encode(text)


def test_unknown_characters_are_refused_by_name() -> None:
    tokenizer = Tokenizer.from_texts(["ab"])
    assert tokenizer.unknown("a?b!") == {"?", "!"}
    with pytest.raises(InputError, match=r"'!\?'"):
        tokenizer.encode("a?b!")


@pytest.mark.parametrize("tokens", [[], ["a", BLANK_TOKEN], [BLANK_TOKEN, "a", "a"]])
def test_impossible_alphabets_are_refused(tokens: list[str]) -> None:
    with pytest.raises(InputError):
        Tokenizer(tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", "hello world"),
        ("don’t  'quote' me", "don't quote me"),
        ("ＡＢＣ１２", "abc12"),
        ("你好，世界。", "你好 世界"),
        ("Grüße — Straße", "grüße straße"),
        ("...", ""),
        ("rock-and-roll", "rock and roll"),
        ("don´t don`t don‘t", "don't don't don't"),
        ("ŉ", "n"),
        ("co\u00adoperate", "cooperate"),
        ("\ufeffone\u200btwo", "one two"),
        ("H\u0331", "\u1e96"),
        ("'", ""),
    ],
)
def test_normal_form_by_example(text: str, expected: str) -> None:
    assert normalize(text) == expected


@given(st.text())
@example("H\u0331")  # composes only in lower case
@example("ŉ´a")
def test_normal_form_is_its_own_normal_form(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@given(st.text(alphabet="aé\u0300\u0316\u0344İ\uff9eｶ ", max_size=200))
@example("İ" + "\u0316" * 40)
def test_normal_form_keeps_few_marks_upon_a_letter(text: str) -> None:
    form = normalize(text)
    assert normalize(form) == form
    assert all(len(marks) <= MOST_MARKS for marks in re.findall("[\u0300-\u036f\u3099]+", form))


def test_a_long_run_of_marks_takes_no_square_of_its_length() -> None:
    """Two runs of 300,000, which Unicode sorts by their places upon the letter: it would take minutes."""
    assert len(normalize("a" + "\u0300" * 300_000 + "\u0316" * 300_000)) == MOST_MARKS  # à is one character
    assert normalize("सुनो tiếng नमस्ते") == "सुनो tiếng नमस्ते"


@given(st.text())
def test_normal_form_has_single_inner_spaces_and_no_capitals(text: str) -> None:
    form = normalize(text)
    assert form == " ".join(form.split())
    assert form == form.lower()
    assert not any(character in ',.!?;:"()' for character in form)


def test_bigrams_of_the_papers_example() -> None:
    tokenizer = Tokenizer.from_texts(["the cat sat"], "bigrams")
    pieces = [tokenizer.tokens[index] for index in tokenizer.encode("the cat sat")]
    assert pieces == ["th", "e", " ", "ca", "t", " ", "sa", "t"]


@given(st.lists(st.text(alphabet="abc d")), st.text(alphabet="abc d"))
def test_bigrams_lose_nothing_and_know_every_text_of_their_characters(texts: list[str], text: str) -> None:
    tokenizer = Tokenizer.from_texts([*texts, "ab c d"], "bigrams")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) <= len(text)


def test_chinese_characters_and_latin_share_an_alphabet() -> None:
    tokenizer = Tokenizer.from_texts(["我在 ktv 唱歌"])
    assert tokenizer.decode(tokenizer.encode("在ktv唱")) == "在ktv唱"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "I paid $1,234.", "i paid one thousand two hundred and thirty four dollars"),
        ("en", "the 3rd of May 1999", "the third of may nineteen ninety nine"),
        ("en", "2.5% of 10", "two point five percent of ten"),
        ("en", "no numbers here", "no numbers here"),
        ("en", "it´s 3", "it's three"),
        ("en", "MAY 5TH", "may fifth"),
        ("en", "$5.50 or 10.00", "five dollars and fifty cents or ten point zero zero"),
        ("en", "9" * 400 + ".5th", "nine " * 400 + "point five th"),
        ("en", "1" * 5000, "one " * 4999 + "one"),
        ("zh", "我有123个苹果。", "我有一百二十三个苹果"),
        ("zh", "ＫＴＶ 涨了3.5%", "ktv 涨了百分之三点五"),
        ("zh", "你 好， 世 界", "你好世界"),
        ("zh", "it´s 3", "it's 三"),
        ("zh", "1,234,567.5", "一百二十三万四千五百六十七点五"),
        ("zh", "2021-05-03", "二零二一年五月三日"),
        ("zh", "2021/5/3", "二零二一年五月三日"),
        ("zh", "3-5，3 - 5，第10～20页", "三到五三到五第十到二十页"),
        ("zh", "0.5–1.5米，3%-5%", "零点五到一点五米百分之三到百分之五"),
        ("zh", "-5度", "负五度"),
        ("zh", "10000000000000002", "一零零零零零零零零零零零零零零零二"),
        ("zh", "房间007，电话010-12345678", "房间零零七电话零一零一二三四五六七八"),
        ("zh", "05月08日09:05分，10:30，8:00开始", "五月八日九点零五分十点三十分八点开始"),
        ("zh", "￥25.50，$1,000", "二十五点五零元一千美元"),
        ("zh", "1:3的比例，2:0获胜，88:56", "一比三的比例二比零获胜八十八比五十六"),
        ("zh", "8:30-9:00，10:00-11:30，¥5-10", "八点三十分到九点十点到十一点三十分五元到十"),
        ("zh", "¥100万，$5亿，￥100元", "一百万元五亿美元一百元"),
        ("zh", "2010-2020年", "二零一零年到二零二零年"),
        ("zh", "00后，90后和95后，1990年后，30秒后", "零零后九零后和九五后一九九零年后三十秒后"),
        ("zh", "12:00:05，12:30:05，00:00，00:30", "十二点零分五秒十二点三十分五秒零点零点三十分"),
        ("zh", "9:05:00-9:10:30", "九点零五分零秒到九点十分三十秒"),
        ("zh", "5‰，3.5 ‰，3‰-5‰", "千分之五千分之三点五千分之三到千分之五"),
        ("zh", "-50%，-0.5‰", "负百分之五十负千分之零点五"),
        ("zh", "18℃，18°C左右，-5 ℃，64℉", "十八摄氏度十八摄氏度左右负五摄氏度六十四华氏度"),
        ("zh", "20℃-25℃", "二十摄氏度到二十五摄氏度"),
        ("", "room 101", "room 101"),
        ("en", "a naïve café, No. 5; No, 5", "a naïve café number five no five"),
        ("en", "7 p.m., 7PM, 7 pm, 9am or 9 a.m. I am", "seven p m seven p m seven p m nine a m or nine a m i am"),
        ("en", "From 3:00 PM to 12:05am; seven pm", "from three p m to twelve oh five a m seven p m"),
        ("en", "Mr. Smith, MRS. JONES and Dr Brown", "mister smith missus jones and doctor brown"),
        ("en", "pm5 and etc_", "p m five and et cetera"),
        ("en", "an MR scan on Elm Dr. again", "an mr scan on elm dr again"),
        (
            "en",
            "3/8 of 5/16, 2 5/6, 2/5 of it, on 2/5, 2/4",
            "three eighths of five sixteenths two and five sixths two fifths of it on two five two four",
        ),
        (
            "en",
            "3 May 1984; on 22 March I; in 7 March on; 12 June",
            "third may nineteen eighty four on twenty second march i in seven march on twelfth june",
        ),
        ("en", "www.bbc.co.uk/news, ds2.com. See a.b", "www dot bbc dot co dot uk slash news ds two dot com see a b"),
        (
            "en",
            "1914-18, 1939-1945, 020 7946 0000",
            "nineteen fourteen to eighteen nineteen thirty nine to nineteen forty "
            "five zero two zero seven nine four six zero zero zero zero",
        ),
        (
            "en",
            "6 ft. tall, 10 lbs, 1 min, on 5th Ave. by Sen. Smith",
            "six feet tall ten pounds one minute on fifth avenue by senator smith",
        ),
        ("zh", "2个人，2本书，2千克，2点，2年，2天，2次，2 个", "两个人两本书两千克两点两年两天两次两个"),
        ("zh", "2个月，2月2日，2号，2楼，2两，2年级，2次方", "两个月二月二日二号二楼二两二年级二次方"),
        ("zh", "第2个，12个，2.2米，1.2个，2002年，2%，2/3", "第二个十二个二点二米一点二个二零零二年百分之二三分之二"),
        ("zh", "2000，20000，2亿，2万，2500元，22000", "两千两万两亿两万两千五百元两万二千"),
        ("zh", "200，200000，12000，2000.5，第2000，2000年", "二百二十万一万二千二千点五第二千二零零零年"),
        ("zh", "2:00，2:30，10:02，12:00:02，2:1", "两点两点三十分十点零二分十二点零分二秒二比一"),
        ("zh", "2015 年 2 月，元龟2年4月", "二零一五年二月元龟二年四月"),
        ("zh", "2-3个，1-2天，¥2，$2，二千和二个", "两到三个一到两天两元两美元二千和二个"),
        ("zh", "<unk>你好[noise]，[笑声]<红楼梦>[书](noise)", "你好红楼梦书 noise"),
        ("zh", "电话13800138000,有13800138000元", "电话一三八零零一三八零零零有一百三十八亿零一十三万八千元"),
    ],
)
def test_numbers_as_they_are_said(language: str, text: str, expected: str) -> None:
    assert normalize(text, language) == expected


@pytest.mark.parametrize("language", ["en", "zh"])
@given(st.text(alphabet="abz 019.,%'我们，。 rdth$£€¥₹¢°CF½⅒/⁄:&;@+=-−–spm‰后"))
def test_spoken_forms_are_their_own_normal_form(language: str, text: str) -> None:
    assert normalize(normalize(text, language), language) == normalize(text, language)


PIECES = """www. .com 3/8 of 020 7946 18 March
    Louis XIV St. Main etc vs VIII Jan. May 5 21st 1066 10-20 3:1 @home <unk> [noise] (laughs) Jr. Mt. the I 2
    个 2000 第 年 月 No. - , . ( [ < $ % am""".split()


@pytest.mark.parametrize("language", ["en", "zh"])
@given(st.lists(st.sampled_from(PIECES)), st.sampled_from(["", " "]))
def test_spoken_forms_of_abbreviations_are_their_own_normal_form(language: str, pieces: list[str], space: str) -> None:
    spoken = normalize(space.join(pieces), language)
    assert normalize(spoken, language) == spoken


def test_a_long_first_token_is_cut_in_the_message() -> None:
    with pytest.raises(InputError, match="the first must be <blank>") as error:
        Tokenizer(["a" * 100_000])
    assert len(str(error.value)) < 200


def test_an_ideograph_is_a_word() -> None:
    assert split_words("我去 hotel 吃饭") == ["我", "去", "hotel", "吃", "饭"]


def test_texts_are_joined_as_their_script_has_them() -> None:
    assert join_words(["我去", "吃饭", "ok", "then", "好"]) == "我去吃饭 ok then 好"
