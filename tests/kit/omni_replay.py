"""Replays a recorded duplex session with its own draws, and compares everything that was recorded of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from realtime_venus.engines.base import FloatPcm
from realtime_venus.engines.omni.behaviour import Behaviour, Decoding
from realtime_venus.engines.omni.context import Basic, Off, Policy, Previous
from realtime_venus.engines.omni.draws import TextDraw
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.duplex_settings import DuplexSettings
from realtime_venus.engines.omni.model import OmniModel
from realtime_venus.engines.omni.pieces import Piece, SpeechPiece, TextPiece, UnitEnd
from realtime_venus.engines.omni.talker import MAX_NEW, Bias
from realtime_venus.engines.omni.token2wav.config import FlowConfig
from realtime_venus.engines.omni.token2wav.stream import T2WState
from realtime_venus.engines.omni.unit_input import Fed
from realtime_venus.engines.omni.voice import VoicePrompt, enroll_file
from torch import Tensor

from . import golden

CLOSE = 1e-4
"""Embeddings, hidden states, logits, keys and values."""
PCM = 100
"""Steps of a 16-bit sample."""
TALKER_EOS_BIAS = 40.0

Numbers = npt.NDArray[Any]

# tensors of this size gain nothing from a second thread, and waiting for it costs seconds where tests run side by side
torch.set_num_threads(1)


class RecordedNoise:
    """The noise of the recorded sessions; its shapes are those that the set's README says it was drawn in."""

    def __init__(self, flow_seed: int, vocoder_seed: int, mel: int) -> None:
        self._flow = torch.as_tensor(golden.normal(flow_seed, 1, mel, 30_000))
        self._vocoder_seed = vocoder_seed

    def flow(self) -> Tensor:
        return self._flow

    def vocoder(self, samples: int, call: int) -> Tensor:
        return torch.as_tensor(golden.normal(self._vocoder_seed + 2 * call, 1, samples, 9))


class RecordedDraws:
    """The uniform numbers of a recorded session, in order."""

    def __init__(self, arrays: golden.Arrays, calls: int) -> None:
        by_call: list[list[float]] = [[] for _ in range(calls)]
        for call, uniform in zip(arrays["draw_call"], arrays["draw_u_f64"], strict=True):
            by_call[int(call)].append(float(uniform))
        self._text = iter(by_call)
        names = sorted(name for name in arrays if re.fullmatch(r"talker\d+_u", name))
        self._codes = iter([float(uniform) for name in names for uniform in arrays[name]])

    def text(self) -> TextDraw:
        first, second = [*next(self._text), 0.0, 0.0][:2]
        return first, second

    def code(self) -> float:
        return next(self._codes)

    def exhausted(self) -> bool:
        return next(self._text, None) is None and next(self._codes, None) is None


@cache
def model(dtype: torch.dtype = torch.float32) -> OmniModel:
    """The checkpoint of the set, with the noise of its recorded sessions."""
    seeds = golden.seeds()
    mel = FlowConfig.load(golden.model_dir() / "assets" / "token2wav").output_size
    noise = RecordedNoise(seeds["flow_noise_seed"], seeds["hift_noise_seed_base"], mel)
    return OmniModel.load(golden.model_dir(), dtype=dtype, noise=noise)


@cache
def voice(name: str) -> VoicePrompt:
    """An enrolled recording of the set."""
    return enroll_file(golden.folder() / name, golden.model_dir() / "assets" / "token2wav")


@cache
def base(name: str, steps: int, dtype: torch.dtype = torch.float32) -> T2WState:
    """Token2wav's state for that voice, learnt once."""
    token2wav = model(dtype).token2wav
    assert token2wav is not None
    with torch.inference_mode():
        return token2wav.base(voice(name), steps=steps)


@dataclass
class Played:
    """What a unit gave."""

    fed: Fed | None
    lengths: list[int]
    logits: Tensor | None
    end: UnitEnd
    pieces: list[Piece]
    raw: list[Tensor] = field(default_factory=list[Tensor])
    """Logits of each sampler call, before steering."""

    @property
    def pcm(self) -> FloatPcm:
        heard = [piece.pcm for piece in self.pieces if isinstance(piece, SpeechPiece)]
        return np.concatenate(heard) if heard else np.zeros(0, np.float32)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces if isinstance(piece, TextPiece))


class Replay:
    """A recorded session, and a session of ours that is led along it."""

    def __init__(
        self,
        name: str,
        *,
        dtype: torch.dtype = torch.float32,
        speaks: bool = True,
        sees: bool = True,
    ) -> None:
        self.name = name
        self.record = golden.record(name)
        self.arrays = golden.stage(name)
        self.units: list[dict[str, Any]] = self.record["units"]
        self.calls: list[dict[str, Any]] = self.record["decode_calls"]
        self.call = 0
        self.ids: list[int] = []
        self.chosen: list[int] = []
        """Those that the model chose: not the end of a turn that a forced listen wrote."""
        self.dtype = dtype
        self.model = model(dtype) if sees else replace(model(dtype), vision=None, resampler=None)
        self.draws = RecordedDraws(self.arrays, len(self.calls))
        given = self.record["duplex_kwargs"]
        longest = max(length for unit in self.units for length in unit["cache_len"])
        settings = DuplexSettings(
            behaviour=Behaviour(self.record["code"]),
            context=_policy(given),
            positions=2 * longest,
            speaks=speaks and given.get("generate_audio", True),
            decoding=self._decoding(given),
        )
        self.session = Duplex(self.model, settings, draws=self.draws)

    def _decoding(self, given: Mapping[str, Any]) -> Decoding:
        decoding = Decoding.of(Behaviour(self.record["code"]))
        return decoding.model_copy(update={"initial_listens": given.get("force_listen_count", 0)})

    # -- what a unit is called with ---------------------------------------------------------------------------------

    def prepare_args(self) -> tuple[str, str, VoicePrompt | FloatPcm, T2WState | None]:
        name = self.record["ref_audio"]
        if not self.session.settings.speaks:
            return self.record["prefix"], self.record["suffix"], golden.wave(golden.folder() / name), None
        spoken = self.record["prompt_wav"] or name
        learnt = base(spoken, self.record["n_timesteps"], self.dtype)
        return self.record["prefix"], self.record["suffix"], voice(name), learnt

    def prefill_args(self, unit: Mapping[str, Any]) -> dict[str, Any]:
        span = unit["audio"]
        text = unit["text_list"]
        return {
            "audio": None if span is None else golden.microphone()[span[0] : span[1]],
            "frames": [golden.image(frame) for frame in unit["frames"] or ()],
            "text": None if text is None else self.model.tokens.encode("".join(text)),
            "max_slices": unit["max_slice_nums"],
        }

    def generate_args(self, unit: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(unit["generate_args"])
        decoding = self.session.decoding
        sampler = decoding.sampler.model_dump()
        names = {"decode_mode": "mode", "text_repetition_penalty": "repetition_penalty"}
        limit = given.pop("max_new_speak_tokens_per_chunk", decoding.max_tokens)
        forced = given.pop("force_listen_override", False)
        sampler |= {names.get(name, name): value for name, value in given.items()}
        sampled = type(decoding.sampler).model_validate(sampler)
        return {
            "force_listen": forced,
            "decoding": decoding.model_copy(update={"sampler": sampled, "max_tokens": limit}),
            "code_bias": self._code_bias(unit),
        }

    def _code_bias(self, unit: Mapping[str, Any]) -> Bias | None:
        step = unit["talker_eos_bias_step"]
        if step is None or self.model.talker is None:
            return None
        return {step: {self.model.talker.end_of_speech: TALKER_EOS_BIAS}}

    def bias(self, call: int) -> Numbers:
        """What was added to the raw logits of a sampler call, ``float32[vocab]``."""
        added = np.zeros(self.model.config.vocab_size, np.float32)
        for value, ids in self.calls[call]["bias"].items():
            added[ids] += np.float32(value)
        return added

    def steer(self, raw: list[Tensor], *, forced: bool = False) -> Any:
        """Adds the recorded bias of the next call, and keeps the raw logits; ``forced`` lets only the recorded token
        be chosen."""

        def steered(logits: Tensor) -> Tensor:
            raw.append(logits.clone())
            call = self.call
            self.call += 1
            if forced:
                only = torch.zeros_like(logits)
                only[self.calls[call]["out"]] = 1000.0
                return only
            return logits + torch.as_tensor(self.bias(call))

        return steered

    def interrupted(self, unit: Mapping[str, Any]) -> bool:
        """Whether the unit was skipped by a break."""
        span = unit["audio"]
        return not unit["prefill_success"] and span is not None and span[1] - span[0] >= 16_000

    # -- playing ----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.session.prepare(*self.prepare_args())

    def play(self, unit: Mapping[str, Any], *, forced: bool = False) -> Played:
        """One unit, driven alone; ``forced``: see :meth:`steer`."""
        session = self.session
        lengths = [session.length]
        if self.interrupted(unit):
            session.break_off()
        fed = session.prefill(**self.prefill_args(unit))
        lengths.append(session.length)
        logits = None if session.pending is None else session.pending.logits[0].clone()
        raw: list[Tensor] = []
        pieces = list(session.generate(**self.generate_args(unit), steer=self.steer(raw, forced=forced)))
        lengths.append(session.length)
        session.finalise()
        lengths.append(session.length)
        session.resume()
        end = pieces.pop()
        assert isinstance(end, UnitEnd)
        self.ids += end.ids
        self.chosen += end.ids if raw else ()
        return Played(fed, lengths, logits, end, pieces, raw)


def _policy(given: Mapping[str, Any]) -> Policy:
    mode = given.get("sliding_window_mode", "off")
    if mode == "basic":
        return Basic(high=given["basic_window_high_tokens"], low=given["basic_window_low_tokens"])
    if mode == "context":
        return Previous(units=given["context_max_units"], tokens=given["context_previous_max_tokens"])
    return Off()


# -- comparing ------------------------------------------------------------------------------------------------------


class Comparison:
    """Compares a replay with its record, and notes which arrays were looked at and how far ours are from them."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.seen = {"draw_call", "draw_u_f64", "draw_index", "draw_margin"}
        """The draws: replayed.  Which bin each fell into is what the token was, and the margin says how surely."""
        self.distance: dict[str, float] = {}
        self._talked = 0

    def close(self, name: str, ours: Tensor | Numbers, *, kind: str, atol: float = CLOSE) -> None:
        """Within ``atol`` of the recorded array."""
        self.seen.add(name)
        recorded = self.replay.arrays[name]
        array = ours.detach().cpu().numpy() if isinstance(ours, Tensor) else ours
        assert array.shape == recorded.shape, (name, array.shape, recorded.shape)
        far = float(np.abs(array.astype(np.float64) - recorded.astype(np.float64)).max(initial=0.0))
        self.distance[kind] = max(self.distance.get(kind, 0.0), far)
        assert far <= atol, (name, far)

    def equal(self, name: str, ours: Sequence[Any]) -> None:
        """Exactly the recorded array."""
        self.seen.add(name)
        assert self.replay.arrays[name].tolist() == list(ours), name

    def prepared(self) -> None:
        assert self.replay.session.length == self.replay.record["prepare_cache_len"]
        assert list(self.replay.model.tokens.forbidden) == self.replay.record["forbidden_ids"]
        self._caches("(after_)?prepare")

    def unit(self, unit: Mapping[str, Any], played: Played) -> None:
        number, session, end = unit["unit"], self.replay.session, played.end
        assert (played.fed is not None) == unit["prefill_success"]
        assert played.lengths == unit["cache_len"]
        said = (end.is_listen, end.text, end.end_of_turn, end.tokens)
        assert said == (unit["is_listen"], unit["text"], unit["end_of_turn"], unit["n_tokens"])
        assert played.text == unit["text"]
        assert list(end.ids) == unit["total_ids"]
        assert session.text.turn_open is not unit["current_turn_ended_after"]
        assert (self.replay.call - len(played.raw), self.replay.call) == tuple(unit["decode_calls"])
        self._window(unit.get("window"), slid=bool(unit.get("slid")))
        self._logits(number, unit, played)
        self._highest(unit, played)
        if played.fed is not None and played.fed.audio is not None and f"audio_embeds{number:02}" in self.replay.arrays:
            self.close(f"audio_embeds{number:02}", played.fed.audio, kind="audio")
        if f"vision_embeds{number:02}" in self.replay.arrays:
            assert played.fed is not None
            assert played.fed.vision is not None
            self.close(f"vision_embeds{number:02}", played.fed.vision, kind="vision")
        if f"cond_hidden{number:02}" in self.replay.arrays:
            assert session.said is not None
            self.close(f"cond_hidden{number:02}", torch.stack(session.said.hidden), kind="hidden")
        self._heard(number, unit, played)
        self._caches(f"(slide_u|after_unit)0*{number}")

    def _window(self, window: Mapping[str, Any] | None, *, slid: bool) -> None:
        if window is None:
            assert not slid
            return
        session = self.replay.session
        ours = {
            "system_preserve": session.units.protected,
            "position_offset": session.memory.dropped,
            "unit_lengths": [unit.length for unit in session.units],
            "unit_ids": [unit.id for unit in session.units],
            "previous_len": len(session.memory.previous),
            "previous_text": session.memory.previous_text,
            "previous_ids": list(session.memory.previous),
        }
        assert ours == window

    def _logits(self, number: int, unit: Mapping[str, Any], played: Played) -> None:
        name = f"pending_logits{number:02}"
        if name in self.replay.arrays:
            assert played.logits is not None
            self.close(name, played.logits, kind="logits")
        if "decode_logits" in self.replay.arrays:
            self.seen.add("decode_logits")
            first, stop = unit["decode_calls"]
            recorded = self.replay.arrays["decode_logits"][first:stop]
            for ours, theirs in zip(played.raw, recorded, strict=True):
                far = float(np.abs(ours.numpy() - theirs).max())
                self.distance["logits"] = max(self.distance["logits"], far)
                assert far <= CLOSE, (number, far)

    def _highest(self, unit: Mapping[str, Any], played: Played) -> None:
        """The highest logits of every call, with and without the recorded bias: written down with so many digits."""
        for call, raw in enumerate(played.raw, unit["decode_calls"][0]):
            recorded, ours = self.replay.calls[call], raw.float().numpy()
            far = float(np.abs(ours[recorded["top_ids"]] - recorded["top_vals"]).max())
            highest = np.sort(ours + self.replay.bias(call))[::-1][: len(recorded["biased_top2"])]
            assert max(far, float(np.abs(highest - recorded["biased_top2"]).max())) <= 2 * CLOSE, call

    def _heard(self, number: int, unit: Mapping[str, Any], played: Played) -> None:
        pcm = played.pcm
        assert len(pcm) == played.end.samples == (unit.get("audio_samples") or 0)
        int16 = np.rint(pcm.astype(np.float64) * 32768)
        name = f"wave{number:02}"
        if name in self.replay.arrays:
            self.close(name, int16, kind="pcm", atol=PCM)
            rms = float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)))
            assert abs(rms - unit["audio_rms"]) < 1e-3
        elif pcm.any():
            assert abs(float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2))) - unit["audio_rms"]) < 1e-3
        elif len(pcm):
            assert hashlib.sha256(int16.astype(np.int16).tobytes()).hexdigest() == unit["audio_sha256_int16"]
        speech = self.replay.session.voice.speech
        assert played.end.codes == (unit["n_tts_tokens"] or 0)
        if speech is None:
            return
        assert speech.talker.position == unit["tts_text_start_pos_after"]
        assert speech.buffer == unit["token2wav_buffer_after"]
        if not unit["is_listen"]:
            self._talker(number)

    def _talker(self, number: int) -> None:
        speech = self.replay.session.voice.speech
        assert speech is not None
        arrays = self.replay.arrays
        for chunk in speech.chunks:
            name = f"talker{self._talked:02}"
            self.close(f"{name}_cond", chunk.condition, kind="condition")
            self.equal(f"{name}_codes", chunk.codes)
            self.seen |= {f"{name}_u", f"{name}_draw_idx", "talker_n", "talker_pos"}
            drawn = arrays[f"{name}_draw_idx"].tolist()
            assert drawn[: len(chunk.codes)] == list(chunk.codes)
            assert len(drawn) == len(chunk.codes) + 1
            rows, codes = chunk.condition.shape[0], len(chunk.codes)
            assert arrays["talker_n"][self._talked] == codes
            position = [chunk.position, chunk.shortest, MAX_NEW, rows, codes, number]
            assert arrays["talker_pos"][self._talked].tolist() == position
            self._talked += 1
        self.seen.add("stream_calls")
        rows = [row for row in arrays["stream_calls"].tolist() if row[3] == number]
        ours = [[each.codes, each.last, each.samples, number, *each.frames] for each in speech.windows]
        assert rows == ours

    def _caches(self, tag: str) -> None:
        cache, slot = self.replay.session.cache, self.replay.session.slot
        for name in [name for name in self.replay.arrays if re.fullmatch(f"kv_{tag}_pos", name)]:
            self.seen.add(name)
            stem = name.removesuffix("_pos")
            positions = self.replay.arrays[name].tolist()
            for layer, part in re.findall(rf"{stem}_l(\d+)_([kv])\b", "\n".join(self.replay.arrays)):
                held = cast("Tensor", getattr(cache, part))[int(layer), slot]
                self.close(f"{stem}_l{layer}_{part}", held[:, positions], kind="cache")
            length = cache.length(slot)
            keys = cache.k[:, slot, :, :length].double()
            sums = torch.stack((keys.sum((1, 2, 3)), keys.abs().sum((1, 2, 3))), dim=1)
            self.close(f"{stem}_ksum_f64", sums, kind="cache_sum", atol=CLOSE * length)

    def ended(self) -> None:
        """At the end: what was counted over the session, and that no array was left out."""
        replay, record = self.replay, self.replay.record
        self._caches("end")
        assert replay.ids == record["total_ids"]
        ids = replay.model.tokens.ids
        framing = {ids.listen, ids.speak, ids.chunk_eos, ids.chunk_tts_eos, ids.unit_end}
        assert [token for token in replay.chosen if token not in framing] == record["res_ids"]
        assert replay.session.text.history == record["generated_tokens_history"]
        speech = replay.session.voice.speech
        assert 2 * (0 if speech is None else speech.stream.vocoder.calls) == record["hift_noise_calls"]
        assert replay.call == len(replay.calls)
        assert replay.draws.exhausted()
        assert set(replay.arrays) == self.seen


def compare(name: str, *, sees: bool = True) -> dict[str, float]:
    """Replay a whole recorded session and compare it; the largest distance by kind."""
    replay = Replay(name, sees=sees)
    comparison = Comparison(replay)
    replay.prepare()
    comparison.prepared()
    for unit in replay.units:
        comparison.unit(unit, replay.play(unit))
    comparison.ended()
    return comparison.distance


def recorded_sessions(*, blind: bool = False) -> Iterator[str]:
    """Names of the recorded duplex sessions of the set; ``blind``: of those without pictures."""
    for path in sorted((golden.folder() / "stages").glob("duplex_*.json")):
        if not (blind and any(unit["frames"] for unit in golden.record(path.stem)["units"])):
            yield path.stem
