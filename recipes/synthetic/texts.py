"""The texts: sentences of WordNet's examples, numbers in words, and simple Mandarin sentences."""

import random
from pathlib import Path

from ds2.utils.files import numbered_lines

ENGLISH = Path(__file__).parent / "english.txt"
DIGITS = "zero one two three four five six seven eight nine".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WHO = "我 你 他 她 我们 你们 他们 老师 学生 医生 朋友 妈妈 爸爸 哥哥 姐姐 弟弟 妹妹 孩子 同事 经理".split()
WHEN = "今天 明天 昨天 现在 早上 中午 下午 晚上 星期一 星期三 星期五 周末 上个月 明年 每天 刚才".split()
WHERE = "北京 上海 学校 医院 公司 商店 家里 火车站 机场 饭馆 图书馆 公园 银行 教室 宾馆 超市".split()
WANTS = "想 要 会 能 可以 应该 打算 喜欢 准备 不想 不能 常常".split()
DOES = (
    "吃饭 喝茶 看书 买东西 学习汉语 打电话 坐飞机 开车 工作 休息 睡觉 看电影 听音乐 写信 跑步 做菜 上网 "
    "游泳 唱歌 跳舞 买水果 找朋友 坐地铁 看病 换钱 照相 喝咖啡 学开车 洗衣服 打篮球"
).split()
THINGS = "书 苹果 衣服 电脑 手机 桌子 椅子 杯子 汽车 房子 票 茶 米饭 面条 牛奶 鸡蛋 报纸 照片".split()
LIKE = "很好 很贵 很便宜 不错 太大了 太小了 很漂亮 很新 很干净 不太好 非常有意思 很好吃".split()


def sentences(path: Path | None) -> list[str]:
    """The lines of a text file, by default those of english.txt."""
    return [line.strip() for _, line in numbered_lines(path or ENGLISH)]


def digits(rng: random.Random) -> str:
    return " ".join(rng.choices(DIGITS, k=rng.randint(3, 8)))


def numbers(rng: random.Random) -> str:
    """Digits, counts, times, dates and prices, in words."""
    from num2words import num2words  # of an extra

    kind = rng.randrange(5)
    if kind == 0:
        return digits(rng)
    if kind == 1:
        return num2words(rng.randrange(10 ** rng.randint(1, 4))).replace("-", " ").replace(",", "")
    if kind == 2:
        minute = rng.choice(["o'clock", *(num2words(minute).replace("-", " ") for minute in range(10, 60))])
        return (
            f"{num2words(rng.randint(1, 12))} {minute} {rng.choice(['in the morning', 'in the evening', ''])}".strip()
        )
    if kind == 3:
        day = num2words(rng.randint(1, 31), to="ordinal").replace("-", " ")
        return f"{rng.choice(DAYS)} the {day} of {rng.choice(MONTHS)}"
    euros, cents = num2words(rng.randint(2, 99)), num2words(rng.randint(2, 99))
    return f"{euros} dollars and {cents} cents".replace("-", " ")


def mandarin(rng: random.Random) -> str:
    """A sentence of everyday words; more than a million are possible."""
    kind = rng.randrange(4)
    if kind == 0:
        return f"{rng.choice(WHO)}{rng.choice(WHEN)}{rng.choice(WANTS)}去{rng.choice(WHERE)}{rng.choice(DOES)}。"
    if kind == 1:
        first = f"{rng.choice(WHEN)}{rng.choice(WHO)}在{rng.choice(WHERE)}{rng.choice(DOES)}"
        return f"{first}，{rng.choice(WHO)}也{rng.choice(WANTS)}去。"
    if kind == 2:
        return f"{rng.choice(WHO)}的{rng.choice(THINGS)}{rng.choice(LIKE)}，{rng.choice(WHO)}{rng.choice(WANTS)}买。"
    return f"{rng.choice(WHEN)}{rng.choice(WHO)}{rng.choice(WANTS)}{rng.choice(DOES)}。"
