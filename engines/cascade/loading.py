"""Loading the cascade's models from the store: side by side, warmed, with what falls back when something is short."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from ..base import EngineError, Language
from ..silero import SileroModel
from ..store.store import Store
from .asr import WhisperRecogniser
from .clauses import warm_up
from .engine import Parts
from .facts import clean_facts, local_clock
from .llm import LlamaOptions, LlamaReplyModel, choose_model
from .prompt import Brief, opening
from .router import Embedder, Head
from .settings import CascadeSettings
from .tts.hibari import HibariVoice
from .tts.kokoro import KokoroVoice
from .tts.voices import VoiceBook, VoiceEntry
from .turn_detector import SmartTurn
from .workers import SLOTS_PER_SESSION, slot_of

_log = logging.getLogger(__name__)

_GGUF = {
    "1.5b": "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    "0.5b": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
}
_STYLES = "kokoro-voices/"


def threads_for(settings: CascadeSettings) -> int:
    """Threads of the language model and of Kokoro: more than two brought nothing on the machines measured."""
    return settings.threads or min(2, psutil.cpu_count(logical=True) or 1)


def load(settings: CascadeSettings, store: Store) -> Parts:
    """Load and warm everything; blocks for some seconds.

    Raises :class:`~..base.NotEnoughMemory` before anything is loaded, and :class:`~..base.EngineError` for files that
    are missing or damaged.
    """
    size = choose_model(psutil.virtual_memory().available, settings.model)
    gguf = store.path(_GGUF[size.name])
    whisper = store.path("whisper-base/model.bin").parent
    smart_turn = store.path("smart-turn-v3.2-cpu.onnx")
    threads = threads_for(settings)
    with ThreadPoolExecutor(4, "venus-load") as pool:
        model = pool.submit(_reply_model, gguf, settings, threads)
        recogniser = pool.submit(_recogniser, whisper)
        voices = pool.submit(_voices, store, threads)
        segmenter = pool.submit(warm_up)
        try:
            embedder = Embedder()
            turns = SmartTurn(smart_turn)
            segmenter.result()
            loaded = model.result()
            return Parts(
                recogniser=recogniser.result(),
                turns=turns,
                model=loaded,
                voices=voices.result(),
                speech=SileroModel(),
                embedder=embedder,
                head=Head.shipped(),
                close=_read_rules(loaded, settings),
            )
        except BaseException:
            if model.exception() is None:
                model.result().close()
            raise


def _reply_model(path: Path, settings: CascadeSettings, threads: int) -> LlamaReplyModel:
    options = LlamaOptions(
        slots=settings.max_sessions * SLOTS_PER_SESSION,
        context_tokens=settings.context_tokens,
        threads=threads,
        temperature=settings.temperature,
    )
    return LlamaReplyModel(path, options)


def _read_rules(model: LlamaReplyModel, settings: CascadeSettings) -> Callable[[], None]:
    """Read the rules of both languages into the first seat, beside whatever comes next; gives what ends both.

    It takes seconds, and nobody has to wait for it: a session reads its own rules when it opens, from here at no cost.
    """
    brief = Brief(settings.persona, settings.system_prompt, clean_facts(settings.facts))
    ended = threading.Event()

    def read() -> None:
        try:
            for language in Language:
                model.prefill(slot_of(0, language), opening(brief, language, local_clock()), ended.is_set)
        except EngineError:
            _log.exception("the rules could not be read beforehand")

    reading = threading.Thread(target=read, name="venus-rules", daemon=True)
    reading.start()

    def close() -> None:
        ended.set()
        reading.join()
        model.close()

    return close


def _recogniser(folder: Path) -> WhisperRecogniser:
    recogniser = WhisperRecogniser(folder)
    recogniser.warm()
    return recogniser


def _voices(store: Store, threads: int) -> VoiceBook:
    hibari = HibariVoice()
    hibari.warm()
    entries = [VoiceEntry(Language.EN, name, hibari) for name in hibari.names]
    try:
        kokoro = _kokoro(store, hibari, threads)
    except EngineError as error:
        _log.warning("no Chinese voice here", extra={"reason": str(error)})
        return VoiceBook(entries)
    for name in kokoro.names:
        language = Language.ZH if name.startswith("z") else Language.EN
        entries.append(VoiceEntry(language, name, kokoro, heavy=True))
    return VoiceBook(entries)


def _kokoro(store: Store, hibari: HibariVoice, threads: int) -> KokoroVoice:
    names = [status.name for status in store.status() if status.name.startswith(_STYLES) and store.present(status.name)]
    first = f"{_STYLES}zf_xiaoxiao.bin"
    styles = {Path(name).stem: store.path(name) for name in sorted(names, key=lambda name: (name != first, name))}
    kokoro = KokoroVoice(
        store.path("kokoro-text.onnx"),
        store.path("kokoro-vocoder.onnx"),
        store.path("kokoro-vocab.json"),
        styles,
        hibari.phonemes,
        threads=threads,
    )
    kokoro.warm()
    return kokoro
