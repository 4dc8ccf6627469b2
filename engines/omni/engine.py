"""The published network as an engine: loaded once, on a thread of its own, shared among sessions."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import torch

from ..base import (
    Capabilities,
    Engine,
    EngineError,
    EngineFull,
    EngineSession,
    Language,
    SessionOptions,
    Unsupported,
)
from ..omni_settings import OmniSettings
from ..protocol import escape
from ..store.checkpoints import checkpoint_folder
from ..store.settings import ModelsSettings
from . import capacity, memory
from .behaviour import Behaviour, Decoding
from .config import CheckpointError
from .context import Basic, Off, Policy, Previous, Recent
from .duplex import UNIT_MS, Duplex
from .duplex_settings import DuplexSettings
from .kv import Full
from .model import TOKEN2WAV, OmniModel
from .noises import noise_of
from .session import LONGEST_TEXT, OmniSession, Ways
from .token2wav.config import FlowConfig
from .token2wav.stream import T2WState
from .voice import VoicePrompt, enroll_file
from .worker import Worker

_log = logging.getLogger(__name__)

PREFIX: Final = "<|im_start|>system\n{prompt}\n<|audio_start|>"
SUFFIX: Final = "<|audio_end|><|im_end|>"
"""Around the reference voice: how the published codes begin a session."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096
"""Of each file of weights, by which it is known."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What sessions share."""

    model: OmniModel
    folder: Path
    voices: Mapping[str, Path]
    """Recordings by name, the default one first."""
    prompts: dict[str, VoicePrompt]
    """Voices that were learnt."""
    made_by: Mapping[str, str]
    """Network, settings and voice as hashes, by the voice's name: what snapshots carry."""
    # Only the engine's thread touches these.
    free: list[Duplex] = field(default_factory=list[Duplex])
    """Cores that no session has."""
    bases: dict[str, T2WState] = field(default_factory=dict[str, T2WState])
    """The speech decoder's state for each of them."""


class OmniEngine(Engine):
    """Realtime-Venus, or another checkpoint of the MiniCPM-o 4.5 layout.

    ``progress`` is told the bytes of weights that were read and those in all, from the engine's thread.
    """

    name = "omni"
    unit_ms = UNIT_MS
    languages = (Language.EN, Language.ZH)

    def __init__(
        self,
        settings: OmniSettings,
        models: ModelsSettings | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._settings, self._models, self._progress = settings, models or ModelsSettings(), progress
        self.max_sessions = settings.max_sessions
        self.modalities: frozenset[Literal["audio", "video"]] = frozenset(("audio",))
        self.capabilities = Capabilities(type=True, overlap=True, snapshot=True)
        self.voices: Mapping[Language, tuple[str, ...]] = MappingProxyType({})
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._loading: Future[_Loaded] | None = None
        self._loaded: _Loaded | None = None
        self._sessions: set[OmniSession] = set()

    # -- loading ----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """See :meth:`~..base.Engine.load`; whoever asks while it loads waits for the same.

        Raises :class:`~.config.CheckpointError` for files that are not right.
        """
        with self._lock:
            self._worker = self._worker or Worker("venus-omni")
            self._loading = loading = self._loading or self._worker.call(self._load)
        try:
            loaded = await asyncio.shield(asyncio.wrap_future(loading))
        except Exception:
            with self._lock:
                if self._loading is loading:
                    self._loading = None  # it may be tried again
            raise
        self._describe(loaded)
        with self._lock:
            if self._loading is not loading:
                raise EngineError("the engine was closed while it loaded")
            self._loaded = loaded

    def _describe(self, loaded: _Loaded) -> None:
        model, able = loaded.model, self._settings.facts_in_prompt
        self.voices = MappingProxyType({language: tuple(loaded.voices) for language in self.languages})
        self.modalities = frozenset(("audio",) if model.vision is None else ("audio", "video"))
        self.capabilities = Capabilities(
            type=True,
            inject=model.tokens.ids.backend is not None,
            facts=able,
            persona=able,
            overlap=True,
            snapshot=True,
            vision=model.vision is not None,
            text_chars=LONGEST_TEXT,
        )

    def _load(self) -> _Loaded:
        settings = self._settings
        with torch.inference_mode():
            voices: dict[str, Path] = {}
            prompts: dict[str, VoicePrompt] = {}

            def ready(folder: Path, need: memory.Need) -> None:
                """What is wrong with the other files, or with a recording, is told before minutes of loading."""
                speaks = need.speaks and (folder / TOKEN2WAV).is_dir()
                if not (need.hears and speaks):
                    what = f"voice ({TOKEN2WAV})" if need.hears else "ears (apm.*)"
                    raise CheckpointError(
                        f"{folder} has no {what}: it cannot hold a conversation; fetch all of its files"
                    )
                voices.update(self._voice_files(folder))
                first = next(iter(voices))
                prompts[first] = self._learn(folder, voices[first])

            sessions = settings.max_sessions
            folder, model = load_model(settings, self._models, self._progress, sessions=sessions, ready=ready)
            made = made_by(folder, settings, model.dtype)
            made_with = {name: f"{made} {_digest(path)}" for name, path in voices.items()}
            loaded = _Loaded(model, folder, voices, prompts, made_with)
            # one session is made ready and kept for whoever comes first: what cannot be is known now
            duplex = self._prepared(loaded, next(iter(voices)), escape(settings.system_prompt))
            duplex.reset()
            loaded.free.append(duplex)
        return loaded

    def _prepared(self, loaded: _Loaded, voice: str, prompt: str) -> Duplex:
        """The core of a session.  Raises :class:`~.kv.Full` where its cache does not hold what it must."""
        duplex = loaded.free.pop() if loaded.free else Duplex(loaded.model, _duplex_settings(self._settings))
        duplex.prepare(PREFIX.format(prompt=prompt), SUFFIX, *self._voice(loaded, voice))
        unit = self._settings.unit_positions
        needed = duplex.length + 2 * unit  # the newest unit stays, whatever is forgotten, and the next comes beside it
        if needed > duplex.cache.capacity:
            raise Full(
                f"prompt and voice take {duplex.length} positions and a second up to {unit}: VENUS_OMNI__POSITIONS "
                f"must be {needed} at least and is {duplex.cache.capacity}"
            )
        return duplex

    def _voice_files(self, folder: Path) -> Mapping[str, Path]:
        own = () if self._settings.voice is None else (self._settings.voice,)
        voices: dict[str, Path] = {}
        for path in (*own, *capacity.voice_files(folder)):
            voices.setdefault(path.stem, path)
        if not voices:
            raise CheckpointError(
                f"{folder / 'assets'} holds no reference voice: fetch HT_ref_audio.wav, or name a recording of 3 to 15 "
                "seconds by VENUS_OMNI__VOICE"
            )
        return voices

    def _voice(self, loaded: _Loaded, name: str) -> tuple[VoicePrompt, T2WState]:
        """A voice, learnt once for all sessions."""
        if name not in loaded.bases:
            assert loaded.model.token2wav is not None
            if name not in loaded.prompts:
                loaded.prompts[name] = self._learn(loaded.folder, loaded.voices[name])
            loaded.bases[name] = loaded.model.token2wav.base(loaded.prompts[name])
        return loaded.prompts[name], loaded.bases[name]

    def _learn(self, folder: Path, recording: Path) -> VoicePrompt:
        return enroll_file(recording, folder / TOKEN2WAV, self._models.cache_dir / "voices")

    # -- sessions ---------------------------------------------------------------------------------------------------

    def open(self, options: SessionOptions) -> EngineSession:
        with self._lock:
            loaded, worker = self._loaded, self._worker
        if loaded is None or worker is None:
            raise EngineError("the engine is not loaded: await load() first")
        voice = options.voice or next(iter(loaded.voices))
        if voice not in loaded.voices:
            raise ValueError(f"unknown voice {voice!r}: known are {', '.join(loaded.voices)}")
        if (options.persona or options.facts) and not self._settings.facts_in_prompt:
            raise Unsupported("the network was trained with a fixed prompt, without persona and facts")
        prompt = self._prompt(options)

        def begin() -> Duplex:
            return self._prepared(loaded, voice, prompt)

        def closed(duplex: Duplex | None) -> None:
            try:
                if duplex is not None and self._loaded is loaded:
                    with torch.inference_mode():
                        duplex.reset()
                    loaded.free.append(duplex)
            except Exception:  # noqa: BLE001 - the slot must come free whatever it was
                _log.exception("the buffers of a session could not be taken back; the next one gets new ones")
            finally:
                with self._lock:
                    self._sessions.discard(session)

        with self._lock:
            if self._loaded is not loaded:
                raise EngineError("the engine was closed")
            if len(self._sessions) >= self.max_sessions:
                raise EngineFull(f"all {self.max_sessions} sessions of the engine are in use")
            session = OmniSession(
                Ways(
                    run=worker.submit,
                    begin=begin,
                    closed=closed,
                    made_by=loaded.made_by[voice],
                    sees=loaded.model.vision is not None,
                    max_slices=self._settings.max_slices,
                    takes_results=loaded.model.tokens.ids.backend is not None,
                    close_timeout_s=self._settings.close_timeout_s,
                )
            )
            self._sessions.add(session)
        return session

    def _prompt(self, options: SessionOptions) -> str:
        """The system prompt, in which nothing can be a control token."""
        prompt = options.system_prompt or self._settings.system_prompt
        return "\n".join(escape(line) for line in (prompt, options.persona, *options.facts) if line)

    async def close(self) -> None:
        """See :meth:`~..base.Engine.close`.

        What still computes after ``close_timeout_s`` ends behind the caller's back, and frees its memory then.
        """
        with self._lock:
            sessions, worker = list(self._sessions), self._worker
            self._worker, self._loading, self._loaded = None, None, None
        await asyncio.gather(*(session.close() for session in sessions))
        if worker is None:
            return
        worker.submit(_free_cache)
        worker.stop()
        if not await worker.ended(self._settings.close_timeout_s):
            _log.warning("the omni engine still computes after it was closed")


def _free_cache() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def load_model(
    settings: OmniSettings,
    models: ModelsSettings,
    progress: Callable[[int, int], None] | None,
    *,
    sessions: int,
    ready: Callable[[Path, memory.Need], None] | None = None,
) -> tuple[Path, OmniModel]:
    """The checkpoint's folder and the network, on the device and in the type that the settings ask for.

    Its speech decoder draws the noise of the behaviour and the seed.  ``ready`` is called with folder and need once it
    is known that the network fits, and before it is loaded.  Raises :class:`~..base.NotEnoughMemory` before
    anything is loaded unless there is room for ``sessions``, :class:`~.config.CheckpointError` for files that are not
    right, and :class:`~..base.EngineError` where files or the device are missing.
    """
    folder = checkpoint_folder(settings.model, models)
    device = capacity.choose_device(settings)
    dtype = capacity.choose_dtype(settings, device)
    need = capacity.read_need(folder, settings, dtype)
    need.check(memory.free_memory(device), sessions, str(device))
    if ready is not None:
        ready(folder, need)
    noise = None
    if (folder / TOKEN2WAV).is_dir():
        mel = FlowConfig.load(folder / TOKEN2WAV).output_size
        noise = noise_of(Behaviour(settings.behaviour), settings.seed, mel=mel)
    steps = settings.flow_steps
    model = OmniModel.load(folder, device=device, dtype=dtype, steps=steps, noise=noise, progress=progress)
    return folder, model


def load_model_for_question(
    settings: OmniSettings,
    folder: Path,
    progress: Callable[[int, int], None] | None,
    *,
    positions: int,
    sees: bool = False,
    hears: bool = False,
) -> OmniModel:
    """The network without its voice, where there is room for a question of that many positions; raises the same, and
    :class:`~..base.EngineError` where the question needs eyes or ears that the checkpoint has not."""
    device = capacity.choose_device(settings)
    dtype = capacity.choose_dtype(settings, device)
    need = capacity.read_need_of_question(folder, positions, dtype)
    if sees and not need.sees:
        raise EngineError(f"{folder} sees nothing (it has no vpm.*): ask about a sound, or take the variant omni")
    if hears and not need.hears:
        raise EngineError(f"{folder} hears nothing (it has no apm.*): ask about a picture, or take another checkpoint")
    need.check(memory.free_memory(device), 1, str(device))
    return OmniModel.load(folder, device=device, dtype=dtype, speaks=False, progress=progress)


def _duplex_settings(settings: OmniSettings) -> DuplexSettings:
    behaviour = Behaviour(settings.behaviour)
    return DuplexSettings(
        behaviour=behaviour,
        decoding=decoding_of(settings),
        context=_policy(settings),
        positions=settings.positions,
        backend=settings.backend,
        overlap_units=settings.overlap_units,
        seed=settings.seed,
    )


def decoding_of(settings: OmniSettings) -> Decoding:
    """The behaviour's own decoding, with what was set explicitly."""
    own = Decoding.of(Behaviour(settings.behaviour))
    given = settings.decoding.model_dump(exclude_unset=True)
    tokens = given.pop("tokens_per_unit", own.max_tokens)
    sampler = type(own.sampler).model_validate({**dict(own.sampler), **given})
    return own.model_copy(update={"sampler": sampler, "max_tokens": tokens, "initial_listens": settings.forced_listens})


def _policy(settings: OmniSettings) -> Policy:
    context = settings.context
    match context.policy:
        case "time":
            # room for the next unit is made beforehand, however small the cache
            high = settings.positions - max(settings.positions // 8, settings.unit_positions)
            return Recent(seconds=float(context.window_s), high=max(high, 1))
        case "basic":
            return Basic(high=context.high, low=context.low)
        case "context":
            return Previous(units=context.units, tokens=context.previous_tokens)
        case "off":
            return Off()


def made_by(folder: Path, settings: OmniSettings, dtype: torch.dtype) -> str:
    """A hash of the network and of the settings that a session's state has its form and its meaning from.

    Of the weights only samples are read, which tell a network from one that it was trained on from.
    """
    digest = hashlib.sha256()
    for name in ("config.json", "model.safetensors.index.json", "tokenizer.json"):
        path = folder / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    voice = (path for path in (folder / TOKEN2WAV).glob("*") if path.suffix in (".pt", ".yaml"))
    for path in sorted((*folder.glob("*.safetensors"), *voice)):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for sample in range(_SAMPLES):
                file.seek(size * sample // _SAMPLES)
                digest.update(file.read(_SAMPLE_BYTES))
    own = settings.model_dump_json(include={"behaviour", "positions", "flow_steps", "overlap_units", "context"})
    digest.update(f"{dtype} {own}".encode())
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
