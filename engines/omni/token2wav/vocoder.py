"""The vocoder over a stream of mel chunks.

Each call renders the last 8 frames again in front of the new ones.  The overlap keeps the source signal it had, and
the two renderings of it are cross-faded; what will overlap with the next call is held back.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from .config import MEL_HOP
from .hift import Hift
from .noise import Noise

OVERLAP_FRAMES = 8
OVERLAP = OVERLAP_FRAMES * MEL_HOP
"""Samples held back: 160 ms."""


class VocoderState:
    """What one stream carries from call to call."""

    def __init__(self, mel: int, device: torch.device) -> None:
        self.mel = torch.zeros(1, mel, OVERLAP_FRAMES, device=device)
        self.source = torch.zeros(1, 1, OVERLAP, device=device)
        self.speech = torch.zeros(1, OVERLAP, device=device)
        self.fresh = True
        """No call has been made in this turn: nothing overlaps."""
        self.calls = 0
        """Calls since the session began; names the noise of the next one."""

    def begin_turn(self) -> None:
        """Forget the turn before; the count of calls goes on."""
        self.fresh = True

    def reset(self) -> None:
        """As new."""
        self.fresh = True
        self.calls = 0

    def copy_from(self, other: VocoderState) -> None:
        """Take over the contents of another state."""
        self.mel.copy_(other.mel)
        self.source.copy_(other.source)
        self.speech.copy_(other.speech)
        self.fresh, self.calls = other.fresh, other.calls

    def snapshot(self) -> dict[str, Any]:
        """The contents, tensors on the CPU."""
        tensors = {"mel": self.mel, "source": self.source, "speech": self.speech}
        kept: dict[str, Any] = {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
        return {**kept, "fresh": self.fresh, "calls": self.calls}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.mel.copy_(cast("Tensor", snapshot["mel"]))
        self.source.copy_(cast("Tensor", snapshot["source"]))
        self.speech.copy_(cast("Tensor", snapshot["speech"]))
        self.fresh, self.calls = bool(snapshot["fresh"]), int(snapshot["calls"])


class Vocoder:
    """:class:`Hift` for streams."""

    def __init__(self, hift: Hift) -> None:
        self.hift = hift
        device = hift.conv_pre.weight.device
        # symmetric Hamming window of twice the overlap: its halves fade in and out
        window = torch.hamming_window(2 * OVERLAP, periodic=False, dtype=torch.float64).float().to(device)
        self._fade_in, self._fade_out = window[:OVERLAP], window[OVERLAP:]

    def stream(self, state: VocoderState, mel: Tensor, noise: Noise, *, last: bool) -> Tensor:
        """New frames ``[1, 80, T]`` to ``float32[n]``.

        ``n`` is 480 T in the first call of a turn (which begins with 160 ms of zeros in place of an overlap) and in
        every further one; the ``last`` one also gives what was held back, 3840 samples more.
        A call that is not the last needs 8 frames or more.
        """
        if not state.fresh:
            mel = torch.cat([state.mel, mel], dim=2)
        samples = mel.shape[2] * MEL_HOP
        source = self.hift.source(mel, noise.vocoder(samples, state.calls).to(mel.device))
        if not state.fresh:
            source = torch.cat([state.source, source[..., OVERLAP:]], dim=2)
        wave = self.hift.render(mel, source)
        if state.fresh:
            spoken = torch.cat([wave.new_zeros(1, OVERLAP), wave], dim=1)
        else:
            joined = wave[:, :OVERLAP] * self._fade_in + state.speech * self._fade_out
            spoken = torch.cat([joined, wave[:, OVERLAP:]], dim=1)
        state.calls += 1
        if last:
            return spoken[0]
        state.mel.copy_(mel[..., -OVERLAP_FRAMES:])
        state.source.copy_(source[..., -OVERLAP:])
        state.speech.copy_(spoken[:, -OVERLAP:])
        state.fresh = False
        return spoken[0, :-OVERLAP]
