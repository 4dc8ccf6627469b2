"""How wrong a transcript is."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNIT = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:'[^\W_]+)*")


def _distance(reference: Sequence[str], heard: Sequence[str]) -> int:
    row = list(range(len(heard) + 1))
    for i, expected in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, got in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (expected != got))
    return row[-1]


def error_rate(reference: str, heard: str) -> tuple[float, int]:
    """Edits over the reference's length, and that length, in words or single Chinese characters; case and punctuation
    do not count."""
    expected, got = (_UNIT.findall(text.lower().replace("’", "'")) for text in (reference, heard))
    return _distance(expected, got) / max(1, len(expected)), len(expected)
