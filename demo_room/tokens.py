"""Secrets: the token that names a session, and the key that a visitor types."""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Callable

from ..engines.base import VenusError

WINDOW_S = 60.0
FAILURES = 10
"""Wrong keys within :data:`WINDOW_S`, from anybody, after which the door stays shut until the window has passed."""


class WrongKey(VenusError):
    """The key is missing or wrong."""


class TooManyTries(VenusError):
    """Too many wrong keys came lately."""


def new_token() -> str:
    """256 random bits, as 43 URL-safe characters."""
    return secrets.token_urlsafe(32)


class Door:
    """Checks keys in constant time and slows down guessing.  ``None`` lets everybody in."""

    def __init__(self, key: str | None, now_s: Callable[[], float]) -> None:
        self._key = None if key is None else _bytes(key)
        self._now_s = now_s
        self._failures: deque[float] = deque(maxlen=FAILURES)

    @property
    def locked(self) -> bool:
        return self._key is not None

    def check(self, key: str) -> None:
        """Raise :class:`WrongKey` or :class:`TooManyTries` unless ``key`` is the one."""
        if self._key is None:
            return
        now = self._now_s()
        if len(self._failures) == FAILURES and now - self._failures[0] < WINDOW_S:
            raise TooManyTries("too many wrong keys; wait a minute")
        if not hmac.compare_digest(_bytes(key), self._key):
            self._failures.append(now)
            raise WrongKey("the key is wrong" if key else "this room asks for a key")


def _bytes(key: str) -> bytes:
    """UTF-8; what came in a header as other bytes is text with surrogates, which equals no readable key."""
    return key.encode(errors="surrogatepass")
