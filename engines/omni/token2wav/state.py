"""What the speech decoder keeps: of a voice, once, and of every session that speaks with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from .config import FRAMES_PER_CODE, MAX_CODES, TAIL_FRAMES, FlowConfig
from .euler import DitCache
from .flow_encoder import EncoderCache
from .vocoder import VocoderState


@dataclass(frozen=True, slots=True)
class VoiceBase:
    """A voice, learnt: ``speaker [1, 80]`` and the caches after its prompt.  Shared by sessions and never written."""

    config: FlowConfig
    steps: int
    frames: int
    """Mel frames of the prompt."""
    speaker: Tensor
    encoder: EncoderCache
    flow: DitCache


class T2WState:
    """One session's stream of speech.  Its buffers are as large as they will ever be."""

    def __init__(self, base: VoiceBase, *, own_rate_trim: bool = False) -> None:
        """``own_rate_trim``: see :meth:`~.flow_encoder.EncoderCache.trim`."""
        config, device = base.config, base.speaker.device
        capacity = base.frames + TAIL_FRAMES + FRAMES_PER_CODE * MAX_CODES
        self.base = base
        self.own_rate_trim = own_rate_trim
        self.encoder = EncoderCache(config.encoder, capacity, device)
        self.flow = DitCache(base.steps, config.decoder.estimator, capacity, device)
        self.vocoder = VocoderState(config.output_size, device)
        self.ended = False
        """The last call of the turn has been made."""
        self.encoder.copy_from(base.encoder)
        self.flow.adopt(base.flow)

    def begin_turn(self) -> None:
        """Back to the voice, as every turn begins.  The count of vocoder calls goes on, so that its noise does not
        come again.
        """
        self.encoder.copy_from(self.base.encoder)
        self.flow.rewind(self.base.flow)
        self.vocoder.begin_turn()
        self.ended = False

    def reset(self) -> None:
        """As new."""
        self.begin_turn()
        self.vocoder.reset()

    def trim(self) -> None:
        """After every call: forget what lies between the prompt and the newest frames, as the network expects."""
        self.encoder.trim(self.base.frames, own_rate=self.own_rate_trim)
        self.flow.trim(self.base.frames)

    def clone(self) -> T2WState:
        """A second stream that goes on from here, with buffers of its own."""
        copy = T2WState(self.base, own_rate_trim=self.own_rate_trim)
        copy.encoder.copy_from(self.encoder)
        copy.flow.copy_from(self.flow)
        copy.vocoder.copy_from(self.vocoder)
        copy.ended = self.ended
        return copy

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, tensors on the CPU.  The voice is not in it."""
        return {
            "steps": self.base.steps,
            "frames": self.base.frames,
            "own_rate_trim": self.own_rate_trim,
            "encoder": self.encoder.snapshot(),
            "flow": self.flow.snapshot(),
            "vocoder": self.vocoder.snapshot(),
            "ended": self.ended,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot of a stream with the same voice; ``ValueError`` for one of another."""
        if (snapshot["steps"], snapshot["frames"]) != (self.base.steps, self.base.frames):
            raise ValueError("the snapshot was taken with another voice or another number of flow steps")
        self.own_rate_trim = bool(snapshot["own_rate_trim"])
        self.encoder.restore(cast("dict[str, Any]", snapshot["encoder"]))
        self.flow.restore(cast("dict[str, Any]", snapshot["flow"]))
        self.vocoder.restore(cast("dict[str, Any]", snapshot["vocoder"]))
        self.ended = bool(snapshot["ended"])
