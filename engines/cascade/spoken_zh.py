"""Chinese figures in words, so that no Arabic digit is left.

``cn2an`` and the normaliser inside ``misaki`` were tried first: one says 二 where people say 两, reads a telephone
number as billions and a time as a ratio; the other says 二零零零零 for 20000 and 幺零五 for 105.  Hence these rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

_DIGITS: Final = "零一二三四五六七八九"
_PHONE_DIGITS: Final = "零幺二三四五六七八九"
_N: Final = r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_NUMBER: Final = rf"(?:{_N})"
_TO: Final = r"\s?(?:[-–—−~～至到]|\.\.)\s?"
_LONGEST: Final = 16
"""More digits than this are no amount that anybody says as one."""

_COUNTED: Final = (
    "个只本人位天周年次种条张件家台辆份块元毛分角米公千厘毫英斤克升吨平立岁倍点步句遍篇杯瓶碗口双套部间座棵朵匹头者边国方"
    "组队段支根笔颗片场项批类门度对顿回趟声艘架封层万亿小星秒瓦伏美欧磅里尺寸名所盒包袋代届轮摄华"
)
"""Characters before which a lone 2 is 两 (units and measure words by their first character)."""

_UNITS: Final = {
    "km²": "平方公里", "m²": "平方米", "㎡": "平方米", "cm²": "平方厘米", "m³": "立方米", "cm³": "立方厘米",
    "km": "公里", "m": "米", "dm": "分米", "cm": "厘米", "mm": "毫米", "μm": "微米", "µm": "微米", "nm": "纳米",
    "kg": "公斤", "g": "克", "mg": "毫克", "t": "吨", "lb": "磅", "lbs": "磅", "oz": "盎司",
    "L": "升", "l": "升", "mL": "毫升", "ml": "毫升", "ft": "英尺", "in": "英寸", "mi": "英里", "ha": "公顷",
    "h": "小时", "hr": "小时", "hrs": "小时", "min": "分钟", "mins": "分钟", "s": "秒", "sec": "秒", "ms": "毫秒",
    "kWh": "千瓦时", "kW": "千瓦", "MW": "兆瓦", "W": "瓦", "V": "伏", "mAh": "毫安时", "Hz": "赫兹", "kHz": "千赫",
    "MHz": "兆赫", "GHz": "吉赫", "dB": "分贝", "kcal": "千卡", "kJ": "千焦", "J": "焦", "Pa": "帕", "kPa": "千帕",
    "°C": "度", "℃": "度", "°F": "华氏度", "℉": "华氏度", "°": "度",
}  # fmt: skip
_PER: Final = {
    "km/h": ("每小时", "公里"), "kmh": ("每小时", "公里"), "kph": ("每小时", "公里"), "mph": ("每小时", "英里"),
    "km/s": ("每秒", "公里"), "m/s": ("每秒", "米"), "Mbps": ("每秒", "兆比特"), "MB/s": ("每秒", "兆字节"),
    "GB/s": ("每秒", "吉字节"), "g/cm³": ("每立方厘米", "克"), "kg/m³": ("每立方米", "公斤"),
}  # fmt: skip
_MONEY_BEFORE: Final = {
    "US$": "美元", "HK$": "港元", "NT$": "新台币", "A$": "澳元", "C$": "加元", "$": "美元", "¥": "元", "￥": "元",
    "€": "欧元", "£": "英镑", "₩": "韩元", "₹": "卢比", "USD": "美元", "CNY": "元", "RMB": "元", "EUR": "欧元",
    "GBP": "英镑", "JPY": "日元", "HKD": "港元",
}  # fmt: skip
_LARGE: Final = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "million": 10**6, "billion": 10**9}
_HALF_DAY: Final = {"a": "上午", "p": "下午"}
_EXACT: Final = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
_SUPERSCRIPTS: Final = {"²": "的平方", "³": "的立方"}


def _alternatives(names: dict[str, str] | dict[str, tuple[str, str]]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


# -- numbers --------------------------------------------------------------------------------------------------------


def digits(text: str, *, phone: bool = False) -> str:
    """Digit by digit; on the telephone 1 is 幺."""
    names = _PHONE_DIGITS if phone else _DIGITS
    return "".join(names[int(character)] for character in text if character.isdigit())


def _below_ten_thousand(value: int, *, leading: bool) -> str:
    """``value`` in 1..9999; ``leading``: nothing stands before it in the number."""
    out = ""
    gap = False
    for power, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // power % 10
        if digit == 0:
            gap = bool(out)
            continue
        if gap:
            out += "零"
            gap = False
        first = leading and not out
        if digit == 2 and (power == 1000 or (power == 100 and first)):
            out += "两"
        elif not (digit == 1 and power == 10 and first):
            out += _DIGITS[digit]
        out += name
    return out


def cardinal(value: int) -> str:
    """A whole number as an amount: 两万, 一百零五, 十二; a lone 2 is 二 here."""
    if value < 0:
        return "负" + cardinal(-value)
    for power, name in ((10**8, "亿"), (10**4, "万")):
        if value >= power:
            high, low = divmod(value, power)
            said = ("两" if high == 2 else cardinal(high)) + name
            if low == 0:
                return said
            return said + ("零" if low < power // 10 else "") + _inner(low)
    return _below_ten_thousand(value, leading=True) if value else "零"


def _inner(value: int) -> str:
    """``value`` after a larger part: 一十 keeps its 一 there."""
    return cardinal(value) if value >= 10**4 else _below_ten_thousand(value, leading=False)


def amount(text: str) -> str:
    """A number as written (``1,234.50``) in words."""
    plain = text.replace(",", "")
    whole, _, fraction = plain.partition(".")
    as_code = len(whole) > _LONGEST or (len(whole) > 1 and whole.startswith("0"))
    said = digits(whole) if as_code else cardinal(int(whole))
    return said + ("点" + digits(fraction) if fraction else "")


def counted(text: str, following: str) -> str:
    """As :func:`amount`, but a lone 2 before something that is counted is 两."""
    return "两" if text == "2" and following[:1] and following[0] in _COUNTED else amount(text)


# -- rules ----------------------------------------------------------------------------------------------------------

Match = re.Match[str]


def _date(year: str, month: str, day: str) -> str:
    return f"{digits(year)}年{cardinal(int(month))}月{cardinal(int(day))}日"


def _date_year_first(found: Match) -> str:
    return _date(*found.groups())


def _date_year_last(found: Match) -> str:
    first, second, year = found.groups()
    month, day = (second, first) if int(first) > 12 else (first, second)
    return _date(year, month, day) if int(month) <= 12 and int(day) <= 31 else found.group()


def _clock(found: Match) -> str:
    hour, minute, second, half = found.groups()
    if int(hour) > 24 or int(minute) > 59:
        return f"{cardinal(int(hour))}比{cardinal(int(minute))}"
    said = _HALF_DAY[half[0].lower()] if half else ""
    said += counted(str(int(hour)), "点") + "点"
    if second:
        return f"{said}{_minutes(minute)}分{_minutes(second)}秒"
    if minute == "30":
        return said + "半"
    return said if minute == "00" else f"{said}{_minutes(minute)}分"


def _minutes(text: str) -> str:
    return ("零" if text.startswith("0") and text != "00" else "") + cardinal(int(text))


def _hour(found: Match) -> str:
    return f"{_HALF_DAY[found.group(2)[0].lower()]}{counted(found.group(1), '点')}点"


def _phone(found: Match) -> str:
    text = found.group()
    groups = re.findall(r"\d+", text)
    if len(groups) == 1 and len(groups[0]) == 11:
        groups = [groups[0][:3], groups[0][3:7], groups[0][7:]]
    return ("加" if text.startswith("+") else "") + "，".join(digits(group, phone=True) for group in groups)


def _short_number(found: Match) -> str:
    return found.group(1) + digits(found.group(2), phone=True)


def _code(found: Match) -> str:
    return found.group(1) + digits(found.group(2))


def _price(found: Match) -> str:
    sign, text, large = found.groups()
    name = _MONEY_BEFORE[sign]
    if large in {"万", "亿", "千", "百万"}:
        return f"{amount(text)}{large}{name}"
    if large:
        return f"{_scaled(text, large)}{name}"
    return counted(text, name) + name


def _price_range(found: Match) -> str:
    sign, first, second = found.groups()
    return f"{amount(first)}到{counted(second, _MONEY_BEFORE[sign])}{_MONEY_BEFORE[sign]}"


def _scientific(found: Match) -> str:
    factor, exponent, unit = found.groups()
    said = f"{amount(factor)}乘以十的{cardinal(int(exponent))}次方"
    if unit in _PER:
        per, name = _PER[unit]
        return per + said + name
    return said + (_UNITS[unit] if unit else "")


def _scaled(text: str, large: str) -> str:
    whole, _, fraction = text.replace(",", "").partition(".")
    value = int(whole + fraction) * _LARGE[large] // 10 ** len(fraction)
    return cardinal(value)


def _percent(found: Match) -> str:
    sign, first, second, mark = found.groups()
    base = "百分之" if mark in "%％" else "千分之"
    said = ("负" if sign else "") + base + amount(first)
    return said + (f"到{base}{amount(second)}" if second else "")


def _temperature(found: Match) -> str:
    below, text, unit = found.groups()
    name = _UNITS[unit.replace(" ", "")]
    return ("零下" if below and name == "度" else "负" if below else "") + counted(text, name) + name


def _measure(found: Match) -> str:
    sign, text, unit = found.groups()
    return ("负" if sign else "") + counted(text, _UNITS[unit]) + _UNITS[unit]


def _per(found: Match) -> str:
    per, name = _PER[found.group(2)]
    return per + counted(found.group(1), name) + name


def _unit_range(found: Match) -> str:
    first, second, unit = found.groups()
    if unit in _PER:
        per, name = _PER[unit]
        return f"{per}{amount(first)}到{amount(second)}{name}"
    return f"{amount(first)}到{counted(second, _UNITS[unit])}{_UNITS[unit]}"


def _year(found: Match) -> str:
    return digits(found.group(1)) + "年"


def _year_range(found: Match) -> str:
    return f"{digits(found.group(1))}{found.group(2) or ''}到{digits(found.group(3))}年"


def _fraction(found: Match) -> str:
    whole, over, under = found.groups()
    if int(under) == 0:
        return found.group()
    said = f"{cardinal(int(under))}分之{cardinal(int(over))}"
    return f"{cardinal(int(whole))}又{said}" if whole else said


def _equation(found: Match) -> str:
    text = found.group()
    for signs, word in ((r"[*×xX·]", "乘以"), (r"[/÷]", "除以"), (r"[-−–]", "减"), (r"\+", "加")):
        text = re.sub(rf"(?<=[\d)%）])\s*{signs}\s*(?=[\d(（])", word, text)
    return re.sub(r"\s*=\s*", "等于", text)


def _power(found: Match) -> str:
    base, exponent = found.groups()
    name = {"2": "平方", "3": "立方"}.get(exponent, cardinal(int(exponent)) + "次方")
    return f"{amount(base) if base[0].isdigit() else base}的{name}"


def _after_letters(found: Match) -> str:
    letters, text = found.groups()
    return f"{letters} {digits(text) if len(text) > 2 and '.' not in text else amount(text)}"


def _rest(found: Match) -> str:
    sign, text = found.groups()
    return ("负" if sign else "") + counted(text, found.string[found.end() :])


_OPERAND: Final = rf"[(（]?[-−]?{_NUMBER}%?[)）]?"
_NOT_IN_NUMBER: Final = r"(?<![\d.])(?<!\d,)"
_ALL_UNITS: Final = f"{_alternatives(_PER)}|{_alternatives(_UNITS)}"
_SIGN_OF_MONEY: Final = _alternatives(_MONEY_BEFORE)
_CODE_NAMES: Final = "号码?|编码|密码|口令|单号|验证码|邮编|代码|尾号|卡号|账号|编号|航班|车次|车牌"
_RULES: Final[list[tuple[re.Pattern[str], str | Callable[[Match], str]]]] = [
    (re.compile(rf"\d{{{_LONGEST + 1},}}"), lambda m: digits(m.group())),
    (re.compile(r"(?<=\d:\d\d)\s?[-–—~～]\s?(?=\d{1,2}:\d\d)"), "到"),
    (
        re.compile(rf"{_NOT_IN_NUMBER}({_NUMBER})\s?[×xX*]\s?10\^(-?\d{{1,3}})(?:\s?({_ALL_UNITS})(?![A-Za-z²³/]))?"),
        _scientific,
    ),
    (re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?![\d.])"), _date_year_first),
    (re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\d/])"), _date_year_last),
    (re.compile(rf"{_NOT_IN_NUMBER}{_OPERAND}(?:\s*[-+*/×÷−–xX·]\s*{_OPERAND})+\s*=\s*(?:-?{_NUMBER})?"), _equation),
    (re.compile(rf"{_NOT_IN_NUMBER}{_NUMBER}(?:\s+[-+*/−–]\s+|\s*[+×÷]\s*){_NUMBER}(?![\d/])"), _equation),
    (re.compile(r"(?<!\d)(\d{1,2})[:：](\d{2})(?:[:：](\d{2}))?(?:\s?([AaPp])\.?[Mm]\b\.?)?(?!\d)"), _clock),
    (re.compile(r"(?<![\d:])(\d{1,2})\s?([AaPp]\.?[Mm]\b\.?)"), _hour),
    (re.compile(r"(?<!\d)(\d{1,3})[:：](\d{1,3})(?!\d)"), lambda m: f"{cardinal(int(m[1]))}比{cardinal(int(m[2]))}"),
    (re.compile(r"\+\d{1,3}[\s-]?\d{2,4}(?:[\s-]?\d{2,4}){1,3}(?!\d)"), _phone),
    (re.compile(r"(?<![\d.])1[3-9]\d(?:[\s-]?\d{4}){2}(?!\d)|(?<![\d.])0\d{2,3}-\d{7,8}(?!\d)"), _phone),
    (re.compile(r"(?<![\d.-])[48]00-?\d{3}-?\d{4}(?!\d)|(?<![\d.-])\d{3}-\d{3}-\d{4}(?!\d)"), _phone),
    (re.compile(r"((?:拨打?|打电话给|[打按]|电话|热线|客服)[是为：:]?\s?)(\d{3,8})(?![\d.个次])"), _short_number),
    (re.compile(rf"((?:{_CODE_NAMES})[是为：:]?\s?)(\d{{3,}})(?![\d.])"), _code),
    (re.compile(r"(?<![\d.])()(\d{3,4})(?=室|房间?|号房|路公交|路车|次列车|航班|路(?!程))"), _code),
    (re.compile(r"\b24/7\b"), "全天候"),
    (re.compile(r"(?<!\w)[-−](?=[$¥￥€£]\d)"), "负"),
    (re.compile(rf"({_SIGN_OF_MONEY})\s?({_NUMBER}){_TO}(?:\1)?({_NUMBER})(?:元)?"), _price_range),
    (
        re.compile(
            rf"({_SIGN_OF_MONEY})\s?({_NUMBER})\s?"
            r"(百万|[万亿千]|million|billion|[kKMB](?![A-Za-z]))?(?:元|美元|欧元|英镑)?"
        ),
        _price,
    ),
    (re.compile(rf"([-−]?)({_NUMBER})\s?[%％]?{_TO}({_NUMBER})\s?([%％‰])"), _percent),
    (re.compile(rf"(?:(?<![\d%])([-−]))?({_NUMBER})()\s?([%％‰])"), _percent),
    (re.compile(r"(?<![\d.,])([12]\d{2}0)s\b"), lambda m: digits(m[1]) + "年代"),
    (re.compile(rf"{_NOT_IN_NUMBER}({_NUMBER})\s?{_TO}({_NUMBER})\s?({_ALL_UNITS})(?![A-Za-z²³/])"), _unit_range),
    (re.compile(rf"(?:(?<![\d.])([-−]))?({_NUMBER})\s?(°\s?[CF]|℃|℉|°)"), _temperature),
    (re.compile(rf"{_NOT_IN_NUMBER}({_NUMBER})\s?({_alternatives(_PER)})(?![A-Za-z])"), _per),
    (
        re.compile(
            rf"(?:(?<![\d.A-Za-z])([-−]))?{_NOT_IN_NUMBER}({_NUMBER})\s?({_alternatives(_UNITS)})(?![A-Za-z²³/])"
        ),
        _measure,
    ),
    (re.compile(rf"(?<!\d)(\d{{4}})(年?){_TO}(\d{{4}})年"), _year_range),
    (re.compile(r"(公元前?\s?)(\d{1,4})(?=年)"), _code),
    (re.compile(r"(?<![\d.,])((?:[12]\d{3})(?<!00))\s?年"), _year),
    (re.compile(r"(?<![\d.,])([12]\d00)\s?年(?![前来]|的?历史|以[前上来])"), _year),
    (re.compile(r"(?<![\d.,])(0\d)年"), _year),
    (re.compile(r"(?<![\d/.])(?:(\d{1,3})\s)?(\d{1,3})/(\d{1,3})(?![\d/])"), _fraction),
    (re.compile(r"第\s?(\d+)"), lambda m: "第" + cardinal(int(m[1])) if len(m[1]) <= _LONGEST else "第" + digits(m[1])),
    (re.compile(r"(?<![\dA-Za-z])(\d+)(?:st|nd|rd|th)\b"), lambda m: "第" + amount(m[1])),
    (re.compile(rf"({_NUMBER}|[A-Za-z])\s?\^\(?(\d{{1,3}})\)?"), _power),
    (re.compile(r"√\s?(?=\d)"), "根号"),
    (re.compile(rf"(?<=\d){_TO}(?=\d)"), "到"),
    (re.compile(r"([A-Za-z]{1,12})[-–]?(\d+(?:\.\d+)?)"), _after_letters),
    (re.compile(rf"(?:(?<![\w)）])([-−])\s?)?({_NUMBER})"), _rest),
]
_SIGNS: Final = {
    "≈": "约等于", "≥": "大于等于", "≤": "小于等于", "≠": "不等于", "=": "等于", "±": "正负", "×": "乘以", "÷": "除以",
    "→": "到", "π": "派", "∞": "无穷大", "℃": "度", "№": "号", "&": "和", "＆": "和", "°": "度", "％": "百分号",
    "%": "百分号", "#": "", "^": "", "|": "，", "_": " ", "*": " ", "~": "", "～": "", "+": "加", "＋": "加",
}  # fmt: skip
_SPACE: Final = re.compile(r"(?<=[^\x00-\x7f])\s+(?=[^\x00-\x7f])")
_BORDER: Final = re.compile(r"(?<=[A-Za-z0-9'])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])")


def read_chinese(text: str) -> str:
    """``text`` without markup, with all figures and signs in words."""
    text = "".join(_plain_digit(character) for character in text)
    for sign, plain in _EXACT.items():
        text = re.sub(rf"(\d)?{sign}", lambda m, p=plain: f"{m[1]} {p}" if m[1] else p, text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    for sign, word in {**_SUPERSCRIPTS, **_SIGNS}.items():
        text = text.replace(sign, word)
    text = _SPACE.sub("", text)
    return _BORDER.sub(" ", text)


def _plain_digit(character: str) -> str:
    """Full-width, circled and foreign digits as ASCII ones; superscripts of units stay."""
    if character.isascii() or character in _SUPERSCRIPTS:
        return character
    value = unicodedata.digit(character, None)
    return character if value is None else str(value)
