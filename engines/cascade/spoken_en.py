"""English figures, as far as the English voices do not read them correctly by themselves.

The voices' own front end (``hibari.g2p``) reads cardinals, ordinals, decimals, years, amounts of dollars, pounds and
euros, times, most dates, common units, fractions, plain ranges, titles and abbreviations.  This module rewrites only
what it misreads, into forms it reads well; the tests compare the phonemes with those of the wanted words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_NUMBER: Final = r"\d+(?:,\d{3})*(?:\.\d+)?"

_UNITS: Final = {
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "cm²": ("square centimeter", "square centimeters"),
    "mm²": ("square millimeter", "square millimeters"),
    "m³": ("cubic meter", "cubic meters"),
    "cm³": ("cubic centimeter", "cubic centimeters"),
    "ft²": ("square foot", "square feet"),
    "km/s": ("kilometer per second", "kilometers per second"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "m/s": ("meter per second", "meters per second"),
    "g/cm³": ("gram per cubic centimeter", "grams per cubic centimeter"),
    "kg/m³": ("kilogram per cubic meter", "kilograms per cubic meter"),
    "MB/s": ("megabyte per second", "megabytes per second"),
    "GB/s": ("gigabyte per second", "gigabytes per second"),
    "m": ("meter", "meters"),
    "g": ("gram", "grams"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "mL": ("milliliter", "milliliters"),
    "dl": ("deciliter", "deciliters"),
    "h": ("hour", "hours"),
    "s": ("second", "seconds"),
    "W": ("watt", "watts"),
    "V": ("volt", "volts"),
    "kcal": ("kilocalorie", "kilocalories"),
    "kJ": ("kilojoule", "kilojoules"),
    "dB": ("decibel", "decibels"),
    "ha": ("hectare", "hectares"),
    "K": ("kelvin", "kelvins"),
}
_CURRENCIES: Final = {
    "USD": "dollars",
    "EUR": "euros",
    "GBP": "pounds",
    "JPY": "yen",
    "CNY": "yuan",
    "RMB": "yuan",
    "元": "yuan",
    "块": "yuan",
}
_DOLLARS: Final = {
    "US": "$",
    "HK": "Hong Kong",
    "A": "Australian",
    "C": "Canadian",
    "CA": "Canadian",
    "NZ": "New Zealand",
}
_UNIT: Final = re.compile(
    rf"(?<![\w.$£€])(-?{_NUMBER})\s?({'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})(?![\w²³/'’])"
)
_POWERS: Final = {"2": " squared", "3": " cubed"}


def _digits(text: str) -> str:
    return " ".join(character for character in text if character.isdigit())


def _phone(found: re.Match[str]) -> str:
    groups = [_digits(group) for group in re.findall(r"\d+", found.group())]
    return ("plus " if found.group().lstrip().startswith("+") else "") + ", ".join(groups)


def _unit(found: re.Match[str]) -> str:
    amount, unit = found.groups()
    if unit == "s" and amount.isdigit() and len(amount) in {2, 4} and amount.endswith("0"):
        return found.group()  # the 1990s, the 80s
    one, many = _UNITS[unit]
    return f"{amount} {one if amount.lstrip('-') == '1' else many}"


def _dollars(found: re.Match[str]) -> str:
    country, amount = _DOLLARS[found.group(1)], found.group(2)
    return f"${amount}" if country == "$" else f"{amount} {country} dollars"


def _feet(found: re.Match[str]) -> str:
    return f"{found.group(1)} foot {found.group(2)}"


def _code(found: re.Match[str]) -> str:
    return found.group(1) + _digits(found.group(2))


def _mixed_fraction(found: re.Match[str]) -> str:
    whole, over, under = found.groups()
    if (over, under) == ("1", "2"):
        return f"{whole} and a half"
    return f"{whole} and {over}/{under}"


def _power(found: re.Match[str]) -> str:
    return _POWERS.get(found.group(1), f" to the power of {found.group(1)}")


def _equation(found: re.Match[str]) -> str:
    """Between two figures of a calculation the signs are operations, not ranges, dates or emphasis."""
    text = found.group()
    text = re.sub(r"(?<=[\d)])\s*[*×xX·]\s*(?=[\d(])", " times ", text)
    text = re.sub(r"(?<=[\d)])\s*[/÷]\s*(?=[\d(])", " divided by ", text)
    text = re.sub(r"(?<=[\d)])\s*[-−–]\s*(?=[\d(])", " minus ", text)
    text = re.sub(r"(?<=[\d)])\s*\+\s*(?=[\d(])", " plus ", text)
    return re.sub(r"\s*=\s*", " equals ", text)


_OPERATION: Final = r"\s*[-+*/×÷−–xX·]\s*"
_OPERAND: Final = rf"\(?[-−]?{_NUMBER}%?\)?"
_RULES: Final[list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]] = [
    (re.compile("[\u2010\u2011\u2012]"), "-"),
    (re.compile(r"−(?=\d)"), "-"),
    (re.compile(r"\d{17,}"), lambda m: _digits(m.group())),
    (re.compile(rf"(?<![\w.]){_OPERAND}(?:{_OPERATION}{_OPERAND})+\s*=\s*-?(?:{_NUMBER}|\?)?"), _equation),
    (re.compile(rf"(?<![\w.]){_NUMBER}(?:\s+[*+/−–]\s+|\s*[×÷]\s*){_NUMBER}(?![\w/])"), _equation),
    (re.compile(r"\bUS\$(?=\d)"), "$"),
    (re.compile(rf"\b(HK|AU?|CA?|NZ)\$({_NUMBER})"), _dollars),
    (
        re.compile(rf"({_NUMBER})\s?(USD|EUR|GBP|JPY|CNY|RMB|元|块)(?![\w])"),
        lambda m: f"{m.group(1)} {_CURRENCIES[m.group(2)]}",
    ),
    (re.compile(rf"\b(JPY|CNY|RMB)\s?({_NUMBER})"), lambda m: f"{m.group(2)} {_CURRENCIES[m.group(1)]}"),
    (re.compile(r"[￥¥](?=\d)"), "¥"),
    (re.compile(r"\+\d{1,3}[\s-]?\(?\d{1,4}\)?(?:[\s.-]?\d{2,4}){2,4}(?!\d)"), _phone),
    (
        re.compile(
            r"\(\d{3}\)\s?\d{3}-\d{4}(?!\d)|(?<![\w.-])\d{3}[.\s]\d{3}[.\s]\d{4}(?![\w.])|(?<![\w.-])1-\d{3}-\d{3}-\d{4}(?!\d)"
        ),
        _phone,
    ),
    (re.compile(r"\b((?:[Cc]all|[Dd]ial|[Pp]hone|[Tt]ext)(?:ing)? )(\d{3,6})(?![\d.,:%]\d|\d| \w+s\b)"), _code),
    (
        re.compile(
            r"\b((?:(?:order|tracking|confirmation|phone|account|card|flight|reference|booking|ticket|serial)"
            r" (?:number|no\.|code)|"
            r"PIN|pin code|zip code|passcode|password|verification code)(?: is|:)? #?)(\d{3,})(?![\d.,]\d)",
            re.IGNORECASE,
        ),
        _code,
    ),
    (re.compile(r"\b24/7\b"), "24 7"),
    (re.compile(r"(?<![\w.])(\d{1,2}\.\d)/(5|10)(?![\w/])"), r"\1 out of \2"),
    (re.compile(r"(?<!\w)[-−](?=[$£€¥]\d)"), "minus "),
    (re.compile(r"(?<![\w/.])(\d{1,3}) (\d{1,2})/(\d{1,2})(?![\w/])"), _mixed_fraction),
    (re.compile(r"\b(\d{1,2}:\d{2})\s?[-–~]\s?(\d{1,2}:\d{2})"), r"\1 to \2"),
    (re.compile(rf"({_NUMBER})\s?%\s?[-–~]\s?({_NUMBER})\s?%"), r"\1 to \2%"),
    (re.compile(rf"(?<![\w.-])({_NUMBER})\s?[-–~]\s?({_NUMBER})\s?(?=%|°)"), r"\1 to \2"),
    (
        re.compile(rf"(?<![\w.-])([$£€¥]{_NUMBER})\s?[-–~]\s?([$£€¥]?{_NUMBER})(?![\w-])"),
        lambda m: f"{m.group(1)} to {m.group(2) if m.group(2)[0] in '$£€¥' else m.group(1)[0] + m.group(2)}",
    ),
    (re.compile(r"(?<=\d(?:st|nd|rd|th))\s?[-–~]\s?(?=\d)"), " to "),
    (re.compile(rf"(?<![\w.-])(\d+(?:\.\d+|,\d{{3}}))\s?[-–~]\s?({_NUMBER})(?![\w-])"), r"\1 to \2"),
    (re.compile(r"(\d+)['′](\d{1,2})(?:[\"″]|'')"), _feet),
    (re.compile(rf"(?<![\w.])({_NUMBER})\s?(?:in\.|″)(?=[\s,;]|$)"), r"\1 inches"),
    (re.compile(r"(?<=\bkm)/h(?!\w)"), "/h"),
    (re.compile(r"\be\.\s?g\.,?"), "for example,"),
    (re.compile(r"\bi\.\s?e\.,?"), "that is,"),
    (
        re.compile(r"(?<![\w])[vV](?:ersion )?(\d+(?:\.\d+)+)"),
        lambda m: "version " + m.group(1).replace(".", " point "),
    ),
    (re.compile(r"(?<=[A-Za-z\d)])\^\(?(-?\d+)\)?"), _power),
    (re.compile(r"[~≈]\s?(?=[\d$£€¥])"), "about "),
    (re.compile(r"≥\s?"), " at least "),
    (re.compile(r"≤\s?"), " at most "),
    (re.compile(r"≠"), " is not equal to "),
    (re.compile(r"√\s?(?=[\d(])"), "the square root of "),
    (re.compile(r"(?<=\d)\s?[x×](?=\s?\d)"), " by "),
    (re.compile(r"\b(\d+(?:\.\d+)?)[x×](?![\w])"), r"\1 times"),
    (re.compile(r"∞"), " infinity "),
    (re.compile(r"[“”„]"), '"'),
    (re.compile(r"…|\.{3,}"), ", "),
]


def read_english(text: str) -> str:
    """``text`` without markup, with the figures rewritten that the English voices misread."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _UNIT.sub(_unit, text)
    return re.sub(r"(?<=[A-Za-z0-9,.;:!?])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])", " ", text)
