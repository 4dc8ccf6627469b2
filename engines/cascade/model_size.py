"""Which of the language models fits the memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..base import NotEnoughMemory
from ..store.store import Store

_log = logging.getLogger(__name__)

MIB = 1024 * 1024
OTHER_MODELS_MIB = 900
"""Resident memory of the rest of the cascade: recogniser, voices, turn detector, runtime (0.6-0.8 GB measured)."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """A language model: ``file`` is its name in the store; ``resident_mib`` with its context, measured."""

    name: str
    resident_mib: int
    file: str

    @property
    def needed_bytes(self) -> int:
        """Free memory that the cascade asks for with this model."""
        return (self.resident_mib + OTHER_MODELS_MIB) * MIB


LARGE = ModelSize("1.5b", 1950, "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
SMALL = ModelSize("0.5b", 700, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")


def choose_model(available_bytes: int, wanted: str = "auto") -> ModelSize:
    """The model that fits ``available_bytes`` of free memory beside the other models.

    ``auto`` takes the 1.5B, or with a warning the 0.5B, which is weak in Chinese.  Raises :class:`NotEnoughMemory` when
    not even that (or the one asked for) fits, ``ValueError`` for an unknown name.
    """
    by_name = {LARGE.name: (LARGE,), SMALL.name: (SMALL,), "auto": (LARGE, SMALL)}
    if wanted not in by_name:
        raise ValueError(f"unknown language model {wanted!r}: known are {', '.join(by_name)}")
    for size in by_name[wanted]:
        if available_bytes >= size.needed_bytes:
            if wanted == "auto" and size is SMALL:
                _log.warning("memory is short: taking the small language model, which is weak in Chinese")
            return size
    raise NotEnoughMemory(
        f"the local models need {by_name[wanted][-1].needed_bytes // MIB} MiB of free memory and "
        f"{available_bytes // MIB} MiB are free: close other programs or use a machine with more memory"
    )


def needed_files(store: Store, available_bytes: int, wanted: str = "auto") -> tuple[str, ...]:
    """What must be pulled for the cascade here: one of the language models, and everything that is not optional."""
    try:
        size = choose_model(available_bytes, wanted)
    except NotEnoughMemory:  # perhaps there is more by the time it is loaded, which says so again
        size = SMALL if wanted == SMALL.name else LARGE
    manifest = store.manifest
    fetched = [entry.name for entry in manifest.fetched if not entry.optional and entry.name != LARGE.file]
    return (*fetched, size.file, *(entry.name for entry in manifest.derived))
