"""What rooms and pages tell each other: JSON objects of at most 16 KiB, longer ones in pieces.

A piece is ``{"type": "chunk", "id": 7, "index": 0, "count": 3, "data": "..."}``; their data, joined, is the message.
"""

from __future__ import annotations

import json
from typing import Any

MAX_BYTES = 16 * 1024
MAX_TEXT = 4000
_PIECE = 12 * 1024
"""Characters of JSON in a piece; quoting it once more and the frame around it stay below :data:`MAX_BYTES`."""


def pack(event: dict[str, Any], chunk_id: int) -> list[str]:
    """Write one message, in pieces when it is longer than the channel takes."""
    whole = json.dumps(event, ensure_ascii=True, separators=(",", ":"))
    if len(whole) <= MAX_BYTES:
        return [whole]
    # Quoting a piece once more may double it, as every character of JSON text can be a quotation mark.
    size = _PIECE // 2
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
    return [
        json.dumps({"type": "chunk", "id": chunk_id, "index": index, "count": len(pieces), "data": piece})
        for index, piece in enumerate(pieces)
    ]
