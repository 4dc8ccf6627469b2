"""English is judged by ear: the voices' front end must make the same phonemes of our text as of the wanted words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import pytest
from realtime_venus.engines.base import Language
from realtime_venus.engines.cascade.spoken import spoken

READINGS = """
It costs $49.99. | It costs forty nine dollars and ninety nine cents.
$5-10 | five dollars to ten dollars
US$20 | twenty dollars
20 USD | twenty dollars
HK$30 | thirty Hong Kong dollars
$1.5 billion | one point five billion dollars
€5 | five euros
20元 | twenty yuan
-$5 | minus five dollars
in 1776 | in seventeen seventy six
July 4th, 1776 | July fourth, seventeen seventy six
2026-11-30 | November thirtieth, twenty twenty six
3/4/2026 | March fourth, twenty twenty six
the 1990s | the nineteen nineties
at 14:35 | at fourteen thirty five
at 9:05 | at nine oh five
at 3 pm | at three P.M.
10:30-12:00 | ten thirty to twelve o'clock
25°C | twenty five degrees Celsius
-5°C | minus five degrees Celsius
10 km | ten kilometers
60 km/h | sixty kilometers per hour
300,000 km/s | three hundred thousand kilometers per second
9.8 m/s² | nine point eight meters per second squared
20 m² | twenty square meters
1 km² | one square kilometer
8,849 m | eight thousand eight hundred forty nine meters
16 GB | sixteen gigabytes
5 L | five liters
1 h | one hour
5 in. wide | five inches wide
5'10" | five foot ten
-7 | minus seven
3.14 | three point one four
50% | fifty percent
10-15% | ten to fifteen percent
10%-15% | ten to fifteen percent
5-10 minutes | five to ten minutes
1.5-2 hours | one point five to two hours
the 21st | the twenty first
1st-3rd | first to third
3/4 | three quarters
2 1/2 cups | two and a half cups
1,000,000 people | one million people
2 + 3 = 5 | two plus three equals five
7 - 2 = 5 | seven minus two equals five
2 * 3 = 6 | two times three equals six
10 / 2 = 5 | ten divided by two equals five
x^2 | x squared
2^10 | two to the power of ten
√16 | the square root of sixteen
~5 | about five
≥ 3 | at least three
555-123-4567 | five five five, one two three, four five six seven
+1 (555) 123-4567 | plus one, five five five, one two three, four five six seven
call 911 | call nine one one
order number 4712 | order number four seven one two
open 24/7 | open twenty four seven
e.g. apples | for example, apples
i.e., now | that is, now
Dr. Smith | Doctor Smith
v2.0 | version two point zero
GPT-4 | GPT four
3x faster | three times faster
1920x1080 | nineteen twenty by ten eighty
4.5/5 | four point five out of five
"""


@pytest.fixture(scope="module")
def phonemes() -> Callable[[str], str]:
    from hibari.g2p import G2P

    front_end = cast("Callable[[str], str]", G2P())

    def plain(text: str) -> str:
        return re.sub(r"[ˈˌ\s]", "", front_end(text))

    return plain


@pytest.mark.parametrize("line", READINGS.strip().splitlines())
def test_the_voice_says_the_wanted_words(line: str, phonemes: Callable[[str], str]) -> None:
    written, words = line.split(" | ")
    assert phonemes(spoken(written, Language.EN)) == phonemes(words)
