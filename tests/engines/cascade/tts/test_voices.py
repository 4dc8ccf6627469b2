"""The book of voices, with voices that write down what they are asked to say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from realtime_venus.engines.base import EngineError, Language
from realtime_venus.engines.cascade.parts import Voiced
from realtime_venus.engines.cascade.tts.voices import VoiceBook, VoiceEntry


class Scribe:
    """A voice that notes (text, name, language) and gives one empty piece."""

    def __init__(self, languages: tuple[Language, ...], names: tuple[str, ...]) -> None:
        self.languages, self.names = languages, names
        self.said: list[tuple[str, str | None, Language | None]] = []
        self.prepared: list[str] = []

    def prepare(self, name: str) -> None:
        self.prepared.append(name)

    def synthesize(self, text: str, name: str | None = None, language: Language | None = None) -> Iterator[Voiced]:
        self.said.append((text, name, language))
        return iter([Voiced(np.zeros(0, np.int16), last=True)])


@pytest.fixture
def light() -> Scribe:
    return Scribe((Language.EN,), ("heart",))


@pytest.fixture
def heavy() -> Scribe:
    return Scribe((Language.EN, Language.ZH), ("xiaoxiao", "bella"))


@pytest.fixture
def book(light: Scribe, heavy: Scribe) -> VoiceBook:
    return VoiceBook(
        [
            VoiceEntry(Language.EN, "heart", light),
            VoiceEntry(Language.EN, "bella", heavy, heavy=True),
            VoiceEntry(Language.ZH, "xiaoxiao", heavy, heavy=True),
        ]
    )


def test_the_first_of_a_language_is_its_default(book: VoiceBook, light: Scribe, heavy: Scribe) -> None:
    assert book.names(Language.EN) == ("heart", "bella")
    assert book.names(Language.ZH) == ("xiaoxiao",)
    list(book.voice(Language.EN).synthesize("Hello."))
    list(book.voice(Language.ZH).synthesize("你好。"))

    assert light.said == [("Hello.", "heart", Language.EN)]
    assert heavy.said == [("你好。", "xiaoxiao", Language.ZH)]


def test_a_voice_by_name(book: VoiceBook, heavy: Scribe) -> None:
    list(book.voice(Language.EN, "bella").synthesize("Hello.", "bella", Language.EN))

    assert heavy.said == [("Hello.", "bella", Language.EN)]


def test_a_clause_with_chinese_goes_to_a_chinese_voice(book: VoiceBook, light: Scribe, heavy: Scribe) -> None:
    voice = book.voice(Language.EN)
    list(voice.synthesize("The word is 猫."))
    list(voice.synthesize("Easy, isn't it?"))

    assert heavy.said == [("The word is 猫.", "xiaoxiao", Language.ZH)]
    assert light.said == [("Easy, isn't it?", "heart", Language.EN)]


def test_an_english_clause_in_a_chinese_reply_keeps_the_voice(book: VoiceBook, heavy: Scribe) -> None:
    list(book.voice(Language.ZH).synthesize("OK, Google Maps."))

    assert heavy.said == [("OK, Google Maps.", "xiaoxiao", Language.ZH)]


def test_the_text_decides_when_nothing_else_does(book: VoiceBook, light: Scribe, heavy: Scribe) -> None:
    list(book.synthesize("Hello."))
    list(book.synthesize("你好。"))
    list(book.synthesize("Hello.", "bella"))

    assert light.said == [("Hello.", "heart", Language.EN)]
    assert heavy.said == [("你好。", "xiaoxiao", Language.ZH), ("Hello.", "bella", Language.EN)]


def test_without_a_chinese_voice_the_chosen_one_does_what_it_can(light: Scribe) -> None:
    book = VoiceBook([VoiceEntry(Language.EN, "heart", light)])
    list(book.voice(Language.EN).synthesize("The word is 猫."))

    assert light.said == [("The word is 猫.", "heart", Language.EN)]
    with pytest.raises(EngineError, match="no voice for 'zh' here; there are: en: heart"):
        book.voice(Language.ZH)


def test_unknown_names_are_answered_with_the_known_ones(book: VoiceBook) -> None:
    with pytest.raises(ValueError, match=r"unknown voice 'emma'.*heart, bella.*xiaoxiao"):
        book.voice(Language.EN, "emma")
    with pytest.raises(ValueError, match="unknown voice 'xiaoxiao'"):
        book.voice(Language.EN, "xiaoxiao")
    with pytest.raises(ValueError, match="this is the voice 'heart'"):
        book.voice(Language.EN).synthesize("Hello.", "bella")


def test_heavy_voices_are_known(book: VoiceBook, light: Scribe, heavy: Scribe) -> None:
    assert not book.heavy(book.voice(Language.EN))
    assert book.heavy(book.voice(Language.EN, "bella"))
    assert book.heavy(book.voice(Language.ZH))
    assert book.heavy(heavy)
    assert not book.heavy(light)


def test_a_voice_is_made_ready_by_its_name_alone(book: VoiceBook, light: Scribe, heavy: Scribe) -> None:
    book.prepare("bella")
    assert (light.prepared, heavy.prepared) == ([], ["bella"])
    with pytest.raises(ValueError, match="unknown voice 'nobody'"):
        book.prepare("nobody")
