"""Loading the cascade's models from the store: side by side, with what falls back when something is short."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from .. import daemons
from ..base import EngineError, Language
from ..machine import available_memory, usable_cores
from ..silero import SileroModel
from ..store.store import Store
from .asr import WhisperRecogniser
from .clauses import warm_up
from .engine import Parts
from .facts import clean_facts, local_clock
from .llm import LlamaOptions, LlamaReplyModel
from .model_size import choose_model
from .parts import CLOSE_S
from .prompt import Brief, opening
from .router import Embedder, Head
from .settings import CascadeSettings
from .tts.hibari import HibariVoice
from .tts.kokoro import KokoroVoice
from .tts.voices import VoiceBook, VoiceEntry
from .turn_detector import SmartTurn
from .workers import SLOTS_PER_SESSION, slot_of

_log = logging.getLogger(__name__)

_STYLES = "kokoro-voices/"


def threads_for(settings: CascadeSettings) -> int:
    """Threads of the language model and of Kokoro: more than two brought nothing on the machines measured."""
    return settings.threads or min(2, usable_cores())


def load(settings: CascadeSettings, store: Store) -> Parts:
    """Load everything; blocks for some seconds.  What only makes the first answer slow is warmed afterwards, beside
    whatever comes next.

    Raises :class:`~..base.NotEnoughMemory` before anything is loaded, and :class:`~..base.EngineError` for files that
    are missing or damaged.
    """
    size = choose_model(available_memory(), settings.model)
    gguf = store.path(size.file)
    whisper = store.path("whisper-base/model.bin").parent
    smart_turn = store.path("smart-turn-v3.2-cpu.onnx")
    threads = threads_for(settings)
    with ThreadPoolExecutor(3, "venus-load") as pool:
        # llama.cpp holds Python's lock while it loads; before that those begin whose libraries let go of it.
        recogniser = pool.submit(WhisperRecogniser, whisper)
        voices = pool.submit(load_voices, store, threads)
        model = pool.submit(_reply_model, gguf, settings, threads)
        try:
            embedder = Embedder()
            turns = SmartTurn(smart_turn)
            book, warm_voices = voices.result()
            parts = Parts(
                recogniser=recogniser.result(),
                turns=turns,
                model=model.result(),
                voices=book,
                speech=SileroModel(),
                embedder=embedder,
                head=Head.shipped(),
                close=lambda: None,
            )
        except BaseException:
            if model.exception() is None:
                model.result().close()
            raise
    close = _warm(model.result(), recogniser.result().warm, warm_voices, settings)
    return replace(parts, close=close)


def _reply_model(path: Path, settings: CascadeSettings, threads: int) -> LlamaReplyModel:
    options = LlamaOptions(
        slots=settings.max_sessions * SLOTS_PER_SESSION,
        context_tokens=settings.context_tokens,
        threads=threads,
        temperature=settings.temperature,
    )
    return LlamaReplyModel(path, options)


def _warm(
    model: LlamaReplyModel,
    warm_recogniser: Callable[[], None],
    warm_voices: Sequence[Callable[[], None]],
    settings: CascadeSettings,
) -> Callable[[], None]:
    """Run everything once and read the rules of both languages into the first seat; gives what ends it all.

    It takes seconds, on a thread of its own, and nobody has to wait for it: what is needed before it was warmed is only
    slower that once, and a session that reads its own rules when it opens finds them here.
    """
    brief = Brief(settings.persona, settings.system_prompt, clean_facts(settings.facts))
    ended = threading.Event()

    def rules() -> None:
        for language in Language:
            model.prefill(slot_of(0, language), opening(brief, language, local_clock()), ended.is_set)

    def warm() -> None:
        for step in (warm_recogniser, warm_up, *warm_voices, rules):
            if ended.is_set():
                return
            try:
                step()
            except EngineError:
                _log.exception("a part could not be warmed")

    warming = daemons.begin(warm, "venus-warm", ended.set)

    def close() -> None:
        until_s = time.monotonic() + CLOSE_S
        ended.set()
        warming.join(CLOSE_S)
        model.close(max(0.0, until_s - time.monotonic()))

    return close


def load_voices(store: Store, threads: int) -> tuple[VoiceBook, Sequence[Callable[[], None]]]:
    """The voices there are, and what warms them.  Where Kokoro cannot be loaded there is English only, with a warning.

    Raises :class:`~..base.EngineError` when there is no voice at all.
    """
    hibari = HibariVoice()
    entries = [VoiceEntry(Language.EN, name, hibari) for name in hibari.names]
    try:
        kokoro = _kokoro(store, hibari, threads)
    except EngineError as error:
        _log.warning("no Chinese voice here", extra={"reason": str(error)})
        return VoiceBook(entries), (hibari.warm,)
    for name in kokoro.names:
        language = Language.ZH if name.startswith("z") else Language.EN
        entries.append(VoiceEntry(language, name, kokoro, heavy=True))
    return VoiceBook(entries), (hibari.warm, kokoro.warm)


def _kokoro(store: Store, hibari: HibariVoice, threads: int) -> KokoroVoice:
    names = [status.name for status in store.status() if status.name.startswith(_STYLES) and store.present(status.name)]
    first = f"{_STYLES}zf_xiaoxiao.bin"
    styles = {Path(name).stem: store.path(name) for name in sorted(names, key=lambda name: (name != first, name))}
    return KokoroVoice(
        store.path("kokoro-text.onnx"),
        store.path("kokoro-vocoder.onnx"),
        store.path("kokoro-vocab.json"),
        styles,
        hibari.phonemes,
        threads=threads,
    )
