"""What travels on the data channel ``events``: one JSON object per message, at most 16 KiB.

From the page::

    {"type": "pong"}                                  answer to a ping
    {"type": "ping"}                                  asks for a pong
    {"type": "ack", "rtp": 123456}                    the listener's device has played up to this RTP time
    {"type": "type", "text": "..."}                   the user typed
    {"type": "say", "text": "..."}                    speak this word for word
    {"type": "interrupt"}                             the stop button
    {"type": "configure", "language": "en" | "zh" | "auto", "voice": "..." | "auto"}
    {"type": "bye"}                                   the page leaves for good

To the page: timeline events, ``ping`` and ``pong``, ``{"type": "closing", "reason": ...}``, and whatever is longer than
a message as pieces ``{"type": "chunk", "id": 7, "index": 0, "count": 3, "data": "..."}``; their data, joined, is the
message.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ....engines.base import Changes, Language
from ..base import Configure, Interrupt, Say, TypeText
from ..messages import MAX_BYTES, MAX_TEXT


class BadMessage(ValueError):
    """A message of the page that means nothing; it is counted and ignored."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ping(_Message):
    type: Literal["ping"]


class Pong(_Message):
    type: Literal["pong"]


class Bye(_Message):
    type: Literal["bye"]


class AckRtp(_Message):
    type: Literal["ack"]
    rtp: int = Field(ge=0, lt=1 << 32)


class _Type(_Message):
    type: Literal["type"]
    text: str = Field(min_length=1, max_length=MAX_TEXT)


class _Say(_Message):
    type: Literal["say"]
    text: str = Field(min_length=1, max_length=MAX_TEXT)


class _Interrupt(_Message):
    type: Literal["interrupt"]


class _Configure(_Message):
    type: Literal["configure"]
    language: Language | Literal["auto"] | None = None
    voice: str | None = Field(default=None, min_length=1, max_length=64)


_Any = Annotated[
    Ping | Pong | Bye | AckRtp | _Type | _Say | _Interrupt | _Configure,
    Field(discriminator="type"),
]
_PARSER: TypeAdapter[Ping | Pong | Bye | AckRtp | _Type | _Say | _Interrupt | _Configure] = TypeAdapter(_Any)

Incoming = Ping | Pong | Bye | AckRtp | TypeText | Say | Interrupt | Configure


def parse(message: str | bytes) -> Incoming:
    """Read one message of the page.  Raises :class:`BadMessage`."""
    raw = message.encode() if isinstance(message, str) else message
    if len(raw) > MAX_BYTES:
        raise BadMessage("longer than 16 KiB")
    try:
        parsed = _PARSER.validate_json(raw)
    except ValidationError as error:
        raise BadMessage(f"{error.error_count()} fields are wrong or missing") from None
    match parsed:
        case _Type(text=text):
            return TypeText(text)
        case _Say(text=text):
            return Say(text)
        case _Interrupt():
            return Interrupt()
        case _Configure(language=language, voice=voice):
            return Configure(Changes(language=language, voice=voice))
        case Ping() | Pong() | Bye() | AckRtp():
            return parsed
