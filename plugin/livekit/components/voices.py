"""The voices of the model store, loaded for the components."""

from __future__ import annotations

from ....engines.cascade import loading
from ....engines.cascade.clauses import warm_up
from ....engines.cascade.settings import CascadeSettings
from ....engines.cascade.tts.voices import VoiceBook
from ....engines.store import Store


def load_voices(settings: CascadeSettings, store: Store) -> VoiceBook:
    """The voices there are, warmed, with what cuts a reply into clauses; blocks for some seconds."""
    warm_up()
    book, warming = loading.load_voices(store, loading.threads_for(settings))
    for warm in warming:
        warm()
    return book
