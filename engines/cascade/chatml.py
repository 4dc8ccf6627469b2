"""The model's prompt format (ChatML, as Qwen2.5 was trained on it), and the one place where foreign text enters it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .parts import Message

_ROLES = frozenset({"system", "user", "assistant"})
_MARKER = re.compile(r"<(?=\||/?tool_call)")
"""Where every control token of the vocabulary begins: ``<|im_end|>``, ``<|fim_pad|>``, ``<tool_call>``, ..."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def escape(text: str) -> str:
    """Make ``text`` inert: no part of it can be read as a control token of the model.

    The words stay readable (``<|im_end|>`` becomes ``< |im_end|>``); control characters and lone surrogates go.
    """
    return _MARKER.sub("< ", _CONTROLS.sub("", text))


def chatml(messages: Sequence[Message], *, last_open: bool = False, prefix: str = "") -> str:
    """The prompt for ``messages``.

    With ``last_open`` the last message has no closing tag, so that a longer one continues it; otherwise the assistant's
    next message is opened, beginning with ``prefix``.  Raises ``ValueError`` for an unknown role.
    """
    parts: list[str] = []
    for message in messages:
        if message.role not in _ROLES:
            raise ValueError(f"unknown role {message.role!r}")
        parts.append(f"<|im_start|>{message.role}\n{escape(message.content)}<|im_end|>\n")
    if last_open:
        return "".join(parts).removesuffix("<|im_end|>\n")
    return "".join(parts) + "<|im_start|>assistant\n" + escape(prefix)
