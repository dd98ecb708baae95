"""Numbers in figures as they are spoken in Mandarin, in characters: 3.5 % is a share, 10:05 a time of day."""

import re
import unicodedata

from ds2.utils.spoken_numbers import CODE, is_code

MANDARIN_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
DATE = r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)"
RATIO = re.compile(r"(?<![\d:.])(\d{1,3}):(\d{1,3})(?![\d:])")
YEARS = re.compile(r"(?<!\d)(\d{4})(?= ?[-–—~] ?\d{4}年)")
MANDARIN_MONEY = {"¥": "元", "$": "美元", "€": "欧元", "£": "英镑"}
MANDARIN_SUM = re.compile(r"([¥$€£]) ?(\d++(?:\.\d++)?[万亿千百]*+)(?:美元|元)?")
CLOCK = re.compile(r"(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d)秒?|分)?(?![\d:])")
MANDARIN_DEGREES = re.compile(r"(?<=\d) ?° ?([CF])(?![A-Za-z])")
MANDARIN_SHARE = re.compile(r"(?<!\d)(-?)(\d++(?:\.\d++)?) ?([%‰])")
MOBILE = re.compile(r"(?<![\d.,])1[3-9]\d{9}(?!\d|[.,]\d| ?[元个人万亿])")
BORN = re.compile(r"(?<![\d.-])\d\d(?=后)")  # 90后: who was born in the nineties
# Not 010-12345678, nor 1-2-3.
RANGE = r"(?<![\d-])(\d{1,6}(?:[年月日点分秒元%‰]|美元|[摄华]氏度)?) ?[-–—~] ?(?=(?!0\d)\d{1,6}(?![\d-]))"
# Before them 2 is 两. A floor, a day of a month and the like have numbers: 2楼, 2号 and 2月 are 二.
MEASURE_WORDS = """
    个 本(?!科) 只 条 张 件 位 名 家 座 辆 台 部 款 双 对(?!\\d) 把(?!手) 支 枝 枚 瓶 杯 碗 盘 盒 箱 包 袋 份 篇
    首 句 字 种 类 样 项 步 遍 趟 回 场 局 轮 顿 道 段 封 批 节 页 头 匹 棵 朵 颗 粒 片 块 根 间 套 幅 群 口 艘 架
    桌 滴 串 堆 层楼 人(?!转) 次(?![方元]) 倍 成(?![为了]) 岁 天 年(?!级|\\d{1,2}月) 周 星期 小时 分钟 秒 点
    元 角 毛钱 美元 欧元 英镑 日元 千 万 亿 克 斤 公斤 吨 升 毫升 米 厘米 毫米 公里 英里 尺 寸 英尺 英寸 平方 立方
    亩 公顷
""".split()
PAIR = re.compile(  # 2个, 2到3个 and 1到2个; not 12个, 1.2个, 第2个, -2个, 10点零2分
    rf"(?<![\dA-Za-z.第/:零十百千万亿点分比-])(?<!第 )2(?=(?:到\d{{1,6}})? ?(?:{'|'.join(MEASURE_WORDS)}))"
)
TWO_THOUSAND = re.compile(r"(?<![\dA-Za-z.第/:比-])(?<!第 )2[0-9]{3,15}(?![\d.年/:-])")  # and 20,000 and so on


def mandarin_numbers(text: str) -> str:
    """1,234 -> 一千二百三十四; 3.5% -> 百分之三点五; 10:05 -> 十点零五分; 2021-05-03 -> 二零二一年五月三日.

    18°C becomes 十八摄氏度, 2个 两个. 3-5 is a range, 三到五; 007, 90后 and telephones are spelled, 零零七 and 九零后.
    """
    import cn2an

    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(DATE, r"\1年\2月\3日", text)  # cn2an would say minus and fractions
    text = MANDARIN_SUM.sub(lambda match: match[2] + MANDARIN_MONEY[match[1]], text)
    text = CLOCK.sub(_mandarin_time, text)
    text = RATIO.sub(r"\1比\2", text)  # what is no time: 1:3, 2:0
    text = re.sub(r" (?<=\d{4} )年", "年", YEARS.sub(r"\1年", text))  # 2015 年 is a year as well
    text = MOBILE.sub(lambda match: match[0].translate(MANDARIN_DIGITS), text)
    text = CODE.sub(_mandarin_spelled, text)
    text = MANDARIN_DEGREES.sub(lambda match: "摄氏度" if match[1] == "C" else "华氏度", text)
    text = re.sub(RANGE, r"\1到", text)
    text = MANDARIN_SHARE.sub(_mandarin_share, text)
    text = BORN.sub(lambda match: match[0].translate(MANDARIN_DIGITS), text)
    text = re.sub(r"\d{17,}", lambda match: match[0].translate(MANDARIN_DIGITS), text)  # beyond cn2an: digit by digit
    if "2" in text:
        text = TWO_THOUSAND.sub(_pair_of_thousands, PAIR.sub("两", text))
    return str(cn2an.transform(text, "an2cn"))


def _pair_of_thousands(match: re.Match[str]) -> str:
    """2000 -> 两千; 20000 -> 两万; but 200000 is left, as 二十万."""
    import cn2an

    spoken = str(cn2an.an2cn(match[0]))
    return f"两{spoken[1:]}" if spoken[1] in "千万亿" else match[0]


def _mandarin_time(match: re.Match[str]) -> str:
    """10:05 -> 10点零5分; 10:00 -> 10点; 12:00:05 -> 12点零分5秒."""
    hour, minutes = int(match[1]), match[2].lstrip("0")
    past = f"{'零' if len(minutes) < 2 else ''}{minutes}分" if minutes or match[3] else ""
    return f"{hour}点{past}{f'{int(match[3])}秒' if match[3] else ''}"


def _mandarin_share(match: re.Match[str]) -> str:
    """-50% -> 负百分之50; 5‰ -> 千分之5."""
    return f"{'负' if match[1] else ''}{'百' if match[3] == '%' else '千'}分之{match[2]}"


def _mandarin_spelled(match: re.Match[str]) -> str:
    """007 -> 零零七."""
    return match[0].replace("-", "").translate(MANDARIN_DIGITS) if is_code(match[0]) else match[0]
