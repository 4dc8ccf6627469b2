"""The published network as an engine: loaded once, on a thread of its own, shared among sessions."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from ..omni_settings import ContextSettings, OmniSettings
from ..protocol import escape
from ..store.checkpoints import checkpoint_folder
from ..store.settings import ModelsSettings
from . import capacity
from .behaviour import Behaviour, Decoding
from .config import CheckpointError
from .context import Basic, Off, Policy, Previous, Recent
from .duplex import UNIT_MS, Duplex
from .duplex_settings import DuplexSettings
from .model import OmniModel
from .session import OmniSession, Ways
from .token2wav.stream import T2WState
from .voice import VoicePrompt, enroll_file

_log = logging.getLogger(__name__)

PREFIX: Final = "<|im_start|>system\n{prompt}\n<|audio_start|>"
SUFFIX: Final = "<|audio_end|><|im_end|>"
"""Around the reference voice: how the published codes begin a session."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What sessions share."""

    model: OmniModel
    folder: Path
    voices: Mapping[str, Path]
    """Recordings by name, the default one first."""
    made_by: str
    """Network and settings by a hash, which snapshots carry."""


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
        self._loaded: _Loaded | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._sessions: set[OmniSession] = set()
        # Only the engine's thread touches these.
        self._free: list[Duplex] = []
        self._known: dict[str, tuple[VoicePrompt, T2WState]] = {}

    # -- loading ----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """See :meth:`~..base.Engine.load`.  Raises :class:`~.config.CheckpointError` for files that are not right."""
        if self._loaded is not None:
            return
        thread = self._thread = self._thread or ThreadPoolExecutor(1, "venus-omni")
        loaded = await asyncio.wrap_future(thread.submit(self._load))
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
        )
        self._loaded = loaded

    def _load(self) -> _Loaded:
        settings = self._settings
        with torch.inference_mode():
            folder, model = load_model(settings, self._models, self._progress, sessions=settings.max_sessions)
            if model.encoder is None or model.token2wav is None:
                what = "ears (apm.*)" if model.encoder is None else f"voice ({capacity.TOKEN2WAV})"
                raise CheckpointError(f"{folder} has no {what}: it cannot hold a conversation; fetch all of its files")
            voices = self._voice_files(folder)
            loaded = _Loaded(model, folder, voices, _made_by(folder, settings, model.dtype))
            self._voice(loaded, next(iter(voices)))
        return loaded

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
        if name not in self._known:
            assert loaded.model.token2wav is not None
            cache = self._models.cache_dir / "voices"
            prompt = enroll_file(loaded.voices[name], loaded.folder / capacity.TOKEN2WAV, cache)
            self._known[name] = prompt, loaded.model.token2wav.base(prompt)
        return self._known[name]

    # -- sessions ---------------------------------------------------------------------------------------------------

    def open(self, options: SessionOptions) -> EngineSession:
        loaded, thread = self._loaded, self._thread
        if loaded is None or thread is None:
            raise EngineError("the engine is not loaded: await load() first")
        voice = options.voice or next(iter(loaded.voices))
        if voice not in loaded.voices:
            raise ValueError(f"unknown voice {voice!r}: known are {', '.join(loaded.voices)}")
        if (options.persona or options.facts) and not self._settings.facts_in_prompt:
            raise Unsupported("the network was trained with a fixed prompt, without persona and facts")
        prompt = self._prompt(options)

        def begin() -> Duplex:
            duplex = self._free.pop() if self._free else Duplex(loaded.model, _duplex_settings(self._settings))
            duplex.prepare(PREFIX.format(prompt=prompt), SUFFIX, *self._voice(loaded, voice))
            return duplex

        def closed(duplex: Duplex | None) -> None:
            if duplex is not None and self._loaded is loaded:
                with torch.inference_mode():
                    duplex.reset()
                self._free.append(duplex)
            with self._lock:
                self._sessions.discard(session)

        def run(step: Callable[[], None]) -> None:
            thread.submit(step)

        with self._lock:
            if len(self._sessions) >= self.max_sessions:
                raise EngineFull(f"all {self.max_sessions} sessions of the engine are in use")
            session = OmniSession(
                Ways(
                    run=run,
                    begin=begin,
                    closed=closed,
                    made_by=f"{loaded.made_by} {voice}",
                    sees=loaded.model.vision is not None,
                    max_slices=self._settings.max_slices,
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
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            await session.close()
        thread, self._thread, self._loaded = self._thread, None, None
        if thread is not None:
            thread.submit(self._forget)
            await asyncio.to_thread(thread.shutdown)

    def _forget(self) -> None:
        self._free, self._known = [], {}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def load_model(
    settings: OmniSettings, models: ModelsSettings, progress: Callable[[int, int], None] | None, *, sessions: int
) -> tuple[Path, OmniModel]:
    """The checkpoint's folder and the network, on the device and in the type that the settings ask for.

    Raises :class:`~..base.NotEnoughMemory` before anything is loaded unless there is room for ``sessions``,
    :class:`~.config.CheckpointError` for files that are not right, and :class:`~..base.EngineError` where files or the
    device are missing.
    """
    folder = checkpoint_folder(settings.model, models)
    device = capacity.choose_device(settings)
    dtype = capacity.choose_dtype(settings, device)
    need = capacity.read_need(folder, settings, dtype)
    need.check(capacity.free_memory(device), sessions, str(device))
    model = OmniModel.load(folder, device=device, dtype=dtype, steps=settings.flow_steps, progress=progress)
    return folder, model


def _duplex_settings(settings: OmniSettings) -> DuplexSettings:
    behaviour = Behaviour(settings.behaviour)
    return DuplexSettings(
        behaviour=behaviour,
        decoding=decoding_of(settings),
        context=_policy(settings.context),
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


def _policy(context: ContextSettings) -> Policy:
    match context.policy:
        case "time":
            return Recent(seconds=float(context.window_s))
        case "basic":
            return Basic(high=context.high, low=context.low)
        case "context":
            return Previous(units=context.units, tokens=context.previous_tokens)
        case "off":
            return Off()


def _made_by(folder: Path, settings: OmniSettings, dtype: torch.dtype) -> str:
    digest = hashlib.sha256()
    for name in ("config.json", "model.safetensors.index.json", "tokenizer.json"):
        path = folder / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    digest.update(f"{dtype} {settings.behaviour} {settings.positions} {settings.flow_steps}".encode())
    return digest.hexdigest()
