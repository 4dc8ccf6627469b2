"""The tokenizer, the ids of the protocol's tokens, and the framing of turn-based prompts.

Ids are found by name: they differ between checkpoints.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from .config import CheckpointError, OmniConfig

PROTOCOL = {
    "im_start": "<|im_start|>",
    "im_end": "<|im_end|>",
    "audio_start": "<|audio_start|>",
    "audio_end": "<|audio_end|>",
    "unit": "<unit>",
    "unit_end": "</unit>",
    "image": "<image>",
    "image_end": "</image>",
    "slice": "<slice>",
    "slice_end": "</slice>",
    "listen": "<|listen|>",
    "speak": "<|speak|>",
    "chunk_eos": "<|chunk_eos|>",
    "turn_eos": "<|turn_eos|>",
    "chunk_tts_eos": "<|chunk_tts_eos|>",
    "tts_bos": "<|tts_bos|>",
    "tts_eos": "<|tts_eos|>",
    "tts_pad": "<|tts_pad|>",
    "unk": "<unk>",
    "delegate": "<delegate>",
    "delegate_end": "</delegate>",
    "backend": "<backend>",
    "backend_end": "</backend>",
}
"""Name of each field of :class:`ProtocolIds` in the tokenizer."""

OPTIONAL = ("delegate", "delegate_end", "backend", "backend_end")
"""Tokens that only checkpoints with tools have."""


@dataclass(frozen=True, slots=True)
class ProtocolIds:
    """Ids of the tokens that the protocol is made of; ``None`` for those of tools where the checkpoint has none."""

    im_start: int
    im_end: int
    audio_start: int
    audio_end: int
    unit: int
    unit_end: int
    image: int
    image_end: int
    slice: int
    slice_end: int
    listen: int
    speak: int
    chunk_eos: int
    turn_eos: int
    chunk_tts_eos: int
    tts_bos: int
    tts_eos: int
    tts_pad: int
    unk: int
    delegate: int | None = None
    delegate_end: int | None = None
    backend: int | None = None
    backend_end: int | None = None


class Tokens:
    """Text to ids and back."""

    def __init__(self, tokenizer: Tokenizer, plain: Tokenizer, ids: ProtocolIds, bad: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        self._plain = plain
        self._control = frozenset(tokenizer.get_added_tokens_decoder()).union(
            each for each in astuple(ids) if each is not None
        )
        self.ids = ids
        self.forbidden = tuple(sorted({*bad, ids.tts_pad, ids.chunk_eos}))
        """Ids that are never sampled as text, ascending: those that the checkpoint lists, and two of the protocol
        that have no place there (the end of a chunk is decided before, by a draw of its own)."""
        self.size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
        """The largest id and one."""

    @classmethod
    def load(cls, folder: Path, config: OmniConfig) -> Tokens:
        """Read ``tokenizer.json`` and ``tokenizer_config.json``.

        Raises :class:`CheckpointError` if they are missing or belong to another network: names of the protocol that
        are missing or stand for two ids, or more ids than the network has embeddings.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"{folder} has no tokenizer.json; fetch it from the checkpoint's repository")
        text = _text(path)
        content = _object(path, text)
        given: Any = content.get("added_tokens")
        added: list[Mapping[str, Any]] = list(cast("list[Mapping[str, Any]]", given)) if isinstance(given, list) else []
        try:
            tokenizer = Tokenizer.from_str(text)
            plain = Tokenizer.from_str(json.dumps({**content, "added_tokens": []}))
        except Exception as error:  # the library raises nothing narrower
            raise CheckpointError(f"{path} is not a tokenizer that can be read ({error}); fetch it again") from error
        ids = _protocol_ids(path, tokenizer, [(str(each.get("content")), each.get("id")) for each in added])
        tokens = cls(tokenizer, plain, ids, _bad_ids(folder))
        if tokens.size > config.vocab_size:
            raise CheckpointError(
                f"{path} has ids up to {tokens.size - 1}, and the network has embeddings for {config.vocab_size}: it "
                "is the tokenizer of another checkpoint"
            )
        if tokens.forbidden[-1] >= config.vocab_size or tokens.forbidden[0] < 0:
            raise CheckpointError(f"{folder / 'tokenizer_config.json'} forbids ids that the network does not have")
        return tokens

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt: names of special tokens in it become those tokens."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_plain(self, text: str) -> list[int]:
        """Ids of words from outside: names of special tokens in it are spelled out, and none of them is returned."""
        # a special token may also be a word of the base vocabulary
        return [each for each in self._plain.encode(text, add_special_tokens=False).ids if each not in self._control]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of ``ids``; incomplete characters become U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        answer: bool = True,
        think: bool = False,
        speak: bool = False,
    ) -> str:
        """The ChatML prompt of a conversation: ``role`` and ``content`` of each message.

        ``answer`` opens the assistant's turn; without ``think`` its thoughts are closed at once; ``speak`` asks for
        words that are to be voiced.  The template that a checkpoint brings is never run: its framing is this one.
        """
        prompt = "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages)
        if answer:
            prompt += "<|im_start|>assistant\n"
            prompt += "" if think else "<think>\n\n</think>\n\n"
            prompt += "<|tts_bos|>" if speak else ""
        return prompt


def _protocol_ids(path: Path, tokenizer: Tokenizer, added: Sequence[tuple[str, object]]) -> ProtocolIds:
    names = Counter(name for name, _ in added)
    numbers = Counter(number for _, number in added)
    found: dict[str, int] = {}
    missing: list[str] = []
    for field in fields(ProtocolIds):
        name = PROTOCOL[field.name]
        if names[name] > 1:
            raise CheckpointError(f"{path} lists the token {name} {names[name]} times; fetch it again")
        number = tokenizer.token_to_id(name)
        if number is not None:
            found[field.name] = number
            if numbers[number] > 1:
                raise CheckpointError(f"{path} gives the id {number} of {name} to another token too; fetch it again")
        elif field.name not in OPTIONAL:
            missing.append(name)
    if missing:
        raise CheckpointError(
            f"{path} lacks {', '.join(missing[:3])}"
            + (f" and {len(missing) - 3} more tokens" if len(missing) > 3 else "")
            + " of the duplex protocol: it is the tokenizer of another checkpoint"
        )
    return ProtocolIds(**found)


def _bad_ids(folder: Path) -> list[int]:
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        raise CheckpointError(f"{folder} has no tokenizer_config.json; fetch it from the checkpoint's repository")
    bad: Any = _object(path, _text(path)).get("bad_token_ids", [])
    if not isinstance(bad, list) or not all(type(each) is int for each in cast("list[object]", bad)):
        raise CheckpointError(f"bad_token_ids of {path} is no list of ids; fetch the file again")
    return cast("list[int]", bad)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); fetch it again") from error


def _object(path: Path, text: str) -> dict[str, Any]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON ({error}); fetch it again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object; fetch it again")
    return cast("dict[str, Any]", content)
