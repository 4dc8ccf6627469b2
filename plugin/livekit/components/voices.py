"""The voices of the model store, loaded for the components."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ....engines.base import EngineError, Language
from ....engines.cascade.clauses import warm_up
from ....engines.cascade.loading import threads_for
from ....engines.cascade.settings import CascadeSettings
from ....engines.cascade.tts.hibari import HibariVoice
from ....engines.cascade.tts.kokoro import KokoroVoice
from ....engines.cascade.tts.voices import VoiceBook, VoiceEntry
from ....engines.store import Store

_log = logging.getLogger(__name__)

_STYLES: Final = "kokoro-voices/"
_DEFAULT_STYLE: Final = f"{_STYLES}zf_xiaoxiao.bin"


def load_voices(settings: CascadeSettings, store: Store) -> VoiceBook:
    """The voices there are, warmed, with what cuts a reply into clauses; blocks for some seconds.

    Where Kokoro cannot be loaded there is English only, with a warning that says why.
    """
    warm_up()
    hibari = HibariVoice()
    hibari.warm()
    entries = [VoiceEntry(Language.EN, name, hibari) for name in hibari.names]
    try:
        kokoro = _kokoro(store, hibari, threads_for(settings))
    except EngineError as error:
        _log.warning("there is no Chinese voice here", extra={"reason": str(error)})
        return VoiceBook(entries)
    for language in Language:
        entries += [VoiceEntry(language, name, kokoro, heavy=True) for name in kokoro.names_of(language)]
    return VoiceBook(entries)


def _kokoro(store: Store, hibari: HibariVoice, threads: int) -> KokoroVoice:
    present = [one.name for one in store.status() if one.name.startswith(_STYLES) and store.present(one.name)]
    styles = {Path(name).stem: store.path(name) for name in sorted(present, key=lambda name: name != _DEFAULT_STYLE)}
    graphs = (store.path("kokoro-text.onnx"), store.path("kokoro-vocoder.onnx"), store.path("kokoro-vocab.json"))
    kokoro = KokoroVoice(*graphs, styles, hibari.phonemes, threads=threads)
    kokoro.warm()
    return kokoro
