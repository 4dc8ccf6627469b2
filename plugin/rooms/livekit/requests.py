"""What a page asks for by RPC, read and checked.  Pure.

``venus.ack`` ``{"stretch": 3, "played_ms": 420}``; ``venus.interrupt`` ``{}``; ``venus.say`` and ``venus.type``
``{"text": "..."}``; ``venus.configure`` ``{"language": "en" | "zh" | "auto", "voice": "..."}``; ``venus.state`` ``{}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....engines.base import Changes, Language
from ..base import Configure, Interrupt, Say, TypeText
from ..messages import MAX_BYTES, MAX_TEXT

METHODS = ("venus.ack", "venus.interrupt", "venus.say", "venus.type", "venus.configure", "venus.state")

MALFORMED = 400
FORBIDDEN = 403
TOO_LARGE = 413
"""Error codes of refused requests, as in HTTP; LiveKit keeps 1001 to 1999 for itself."""


class BadRequest(ValueError):
    """A request that is not carried out; ``code`` and text go back to the page."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Played:
    """The device has played ``played_ms`` of the stretch."""

    stretch: int
    played_ms: float


@dataclass(frozen=True, slots=True)
class AskState:
    """Say how things are."""


Request = Played | AskState | TypeText | Say | Interrupt | Configure


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Nothing(_Payload):
    pass


class _Ack(_Payload):
    stretch: int = Field(ge=0)
    played_ms: float = Field(ge=0)


class _Text(_Payload):
    text: str = Field(min_length=1, max_length=MAX_TEXT)


class _Configure(_Payload):
    language: Language | Literal["auto"] | None = None
    voice: str | None = Field(default=None, min_length=1, max_length=64)


_MODELS: dict[str, type[_Payload]] = {
    "venus.ack": _Ack,
    "venus.interrupt": _Nothing,
    "venus.say": _Text,
    "venus.type": _Text,
    "venus.configure": _Configure,
    "venus.state": _Nothing,
}


def typed(text: str, speaker: str) -> TypeText | None:
    """A line of chat; ``None`` when there is nothing in it.  How long it may be is up to the session, which says so."""
    return TypeText(text, speaker) if text.strip() else None


def parse(method: str, payload: str, speaker: str) -> Request:
    """Read a request of the participant ``speaker``.  Raises :class:`BadRequest`."""
    raw = payload.encode(errors="surrogatepass")
    if len(raw) > MAX_BYTES:
        raise BadRequest(TOO_LARGE, f"{method} takes at most {MAX_BYTES} bytes")
    try:
        parsed = _MODELS[method].model_validate_json(raw or b"{}")
    except KeyError:
        raise BadRequest(MALFORMED, f"there is no method {method}") from None
    except ValidationError as error:
        complaints = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'payload'}: {one['msg']}" for one in error.errors())
        raise BadRequest(MALFORMED, f"{method}: {complaints}") from None
    match parsed:
        case _Ack(stretch=stretch, played_ms=played_ms):
            return Played(stretch, played_ms)
        case _Text(text=text):
            return Say(text) if method == "venus.say" else TypeText(text, speaker)
        case _Configure(language=language, voice=voice):
            return Configure(Changes(language=language, voice=voice))
        case _:
            return Interrupt() if method == "venus.interrupt" else AskState()
