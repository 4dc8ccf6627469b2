"""Lines of a log without the tokens that open rooms.  Imports nothing of LiveKit."""

from __future__ import annotations

import logging
import re

_TOKEN = re.compile(r"eyJ[\w.-]+")
"""A JSON Web Token: base64 of ``{"`` first, in every one of them."""


def redacted(message: str) -> str:
    """What LiveKit's SDK says, without the token that it likes to quote."""
    return _TOKEN.sub("(the token)", message)


class Redacting(logging.Formatter):
    """The ordinary formatter, but for tokens."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
