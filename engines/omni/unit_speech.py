"""The speech of a unit: what of its words is voiced, and what stands in where nothing is.

A private request is never voiced.  Where one begins, all that is to be heard before it is said to its end first, and
the talker rests until there are words again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..base import OUTPUT_HZ
from .behaviour import Rules
from .draws import Draws
from .model import OmniModel
from .pieces import SpeechPiece, Work
from .speech import Speech, Stopped
from .talker import Bias
from .token2wav.stream import T2WState
from .unit_text import Said


class UnitSpeech:
    """Voices the units of one session; ``speech`` is ``None`` where it does not speak."""

    def __init__(self, model: OmniModel, rules: Rules) -> None:
        self._model = model
        self._rules = rules
        self.speech: Speech | None = None
        self._hushed = False
        """All words of the turn are said, and what has come since was private."""

    def begin(self, voice: T2WState | None, draws: Draws) -> None:
        """Begin a session that speaks with ``voice``."""
        self.speech = None if voice is None else Speech(self._model, self._rules, draws, voice)
        self._hushed = False

    @property
    def codes(self) -> int:
        """What the talker made for the unit."""
        return 0 if self.speech is None else sum(len(chunk.codes) for chunk in self.speech.chunks)

    def cut_off(self) -> None:
        """The turn was closed from outside: what was not given out is dropped."""
        self._hushed = False
        if self.speech is not None:
            self.speech.begin_turn(keep_talker=not self._rules.forced_listen_resets_talker)

    def speak(self, said: Said, bias: Bias | None, stopped: Stopped) -> Work[int]:
        """Give out the unit's speech; how many samples it has."""
        if self.speech is None:
            samples = 0
            silent = said.is_listen and self._rules.silence_when_listening
        else:
            self.speech.begin_unit()
            samples = yield from self._voice(self.speech, said, bias, stopped)
            silent = self._rules.silence_when_listening if said.is_listen else self._rules.silence_when_empty
        if samples == 0 and silent:
            samples = OUTPUT_HZ
            yield SpeechPiece(np.zeros(samples, np.float32))
        return samples

    def _voice(self, speech: Speech, said: Said, bias: Bias | None, stopped: Stopped) -> Work[int]:
        if stopped():
            self.cut_off()
        if said.is_listen or stopped() or (self._rules.quiet_outside_turns and not (said.in_turn or speech.pending)):
            return 0
        turn_eos = self._model.tokens.ids.turn_eos
        words = any(token != turn_eos for token in said.spoken)
        self._hushed = not words and (self._hushed or said.private)
        samples = 0
        if speech.pending or not self._hushed:
            hidden = torch.stack(said.hidden) if said.hidden else self._no_hidden()
            ends = said.end_of_turn or said.ends_private
            for piece in speech.speak(said.spoken, hidden, ends=ends, bias=bias, stopped=stopped):
                samples += len(piece.pcm)
                yield piece
            self._hushed = said.ends_private
            if stopped():
                self.cut_off()
        if said.end_of_turn:
            self._hushed = False
        return samples

    def _no_hidden(self) -> torch.Tensor:
        return torch.zeros(0, self._model.config.hidden_size, dtype=self._model.dtype, device=self._model.device)

    def reset(self) -> None:
        """As new: a voice must be given again."""
        self.speech = None
        self._hushed = False

    def snapshot(self) -> dict[str, Any]:
        """The state, detached from this object."""
        return {"speech": None if self.speech is None else self.speech.snapshot(), "hushed": self._hushed}

    def restore(self, snapshot: dict[str, Any], draws: Draws) -> None:
        """Go on from a snapshot of a session with the same voice."""
        if self.speech is not None and snapshot["speech"] is not None:
            self.speech.restore(snapshot["speech"], draws)
        self._hushed = bool(snapshot["hushed"])
