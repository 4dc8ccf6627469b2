"""The engine with the recorded checkpoint: real talk through the real runtime, and everything that can be wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from realtime_venus.engines.base import (
    Changes,
    Decided,
    Decision,
    EngineError,
    EngineEvent,
    EngineFull,
    Frame,
    Language,
    MediaUnit,
    Overlap,
    OverlapPhase,
    SessionOptions,
    Speech,
    Text,
    Trouble,
    TurnEnded,
    UnitDone,
    Unsupported,
)
from realtime_venus.engines.omni.behaviour import Behaviour, Decoding
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.engine import OmniEngine, decoding_of
from realtime_venus.engines.omni_settings import DecodingSettings, OmniSettings, overridden
from realtime_venus.engines.store.settings import ModelsSettings
from realtime_venus.plugin.converse import converse, failure
from realtime_venus.plugin.session import SessionSettings
from realtime_venus.plugin.timeline import events as ev

from ...kit import checkpoints, golden
from ...kit.omni_engine import FAST, SETTINGS, UNIT, VOICE, VOICE_FILE, leads, loaded, plain, seconds, talking

PATIENT = SessionSettings(fast_watchdog_s=3600)


@pytest.fixture(autouse=True)
def _led(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network takes turns, whatever its weights would rather do."""
    monkeypatch.setattr(Duplex, "generate", leads)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> ModelsSettings:
    return ModelsSettings(cache_dir=tmp_path_factory.mktemp("cache"))


def closing(engine: OmniEngine) -> Iterator[OmniEngine]:
    asyncio.run(engine.load())
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="module")
def engine(cache: ModelsSettings) -> Iterator[OmniEngine]:
    """The whole checkpoint."""
    yield from closing(OmniEngine(overridden(SETTINGS, model=golden.model_dir()), cache))


@pytest.fixture(scope="module")
def hearing(cache: ModelsSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OmniEngine]:
    """The audio variant: no vision tower in the files."""
    yield from closing(OmniEngine(overridden(SETTINGS, model=audio_variant(tmp_path_factory.mktemp("audio"))), cache))


def audio_variant(folder: Path) -> Path:
    kept = {name: one for name, one in checkpoints.tensors().items() if not name.startswith(("vpm.", "resampler."))}

    def blind(config: dict[str, Any]) -> None:
        config["init_vision"] = False

    return checkpoints.copy(folder, weights=kept, config=blind, assets=True)


# -- talk ----------------------------------------------------------------------------------------------------------


async def test_it_talks_through_the_real_runtime(engine: OmniEngine) -> None:
    audio = golden.microphone()[: 10 * UNIT]
    outcome = await converse(audio, engine, FAST, PATIENT, tail_s=4)
    assert failure(outcome) is None
    events = outcome.timeline.events
    timed = [event for event in events if isinstance(event, ev.UnitTimed)]
    assert [event.index for event in timed] == list(range(len(timed)))
    assert len(timed) >= 10
    assert {"prefill", "generate", "text", "speech"} <= set(timed[0].timings)
    assert [event for event in events if isinstance(event, ev.AgentText)]
    assert np.abs(outcome.agent).max() > 100
    assert not [event for event in events if isinstance(event, ev.TroubleEvent | ev.UserText)]


async def test_speech_is_whole_turns_end_and_units_are_answered_in_order(engine: OmniEngine) -> None:
    async with talking(engine) as talk:
        await talk.units(seconds(0, 10))
    at: dict[str, int] = {}
    ended: list[str] = []
    for event in talk.said:
        if isinstance(event, Speech):
            assert event.utterance_id not in ended
            assert event.first_sample == at.get(event.utterance_id, 0)
            at[event.utterance_id] = event.first_sample + len(event.pcm)
        elif isinstance(event, TurnEnded):
            assert event.samples == at.get(event.utterance_id, 0)
            ended.append(event.utterance_id)
        elif isinstance(event, Text):
            assert event.utterance_id not in ended
            assert 0 <= event.first_sample < event.end_sample
    assert len(ended) >= 2, "the network never ended a turn: nothing was tested"
    decisions = [event.decision for event in talk.said if isinstance(event, Decided)]
    assert decisions == [Decision.SPEAK, Decision.LISTEN] * (len(decisions) // 2) + decisions[len(decisions) // 2 * 2 :]
    assert [event.index for event in talk.said if isinstance(event, UnitDone)] == list(range(10))


async def test_a_session_repeats_itself_and_knows_nothing_of_the_one_before(engine: OmniEngine) -> None:
    said: list[list[object]] = []
    for noise in (0, 3, 0):
        async with talking(engine) as talk:
            await talk.units(seconds(noise, 4))
        said.append(plain(talk.said))
    assert said[0] == said[2] != said[1]


async def test_two_sessions_side_by_side_are_as_each_alone(engine: OmniEngine) -> None:
    alone: list[list[object]] = []
    for first in (2, 11):
        async with talking(engine) as talk:
            await talk.units(seconds(first, 4))
        alone.append(plain(talk.said))
    async with talking(engine) as one, talking(engine) as other:
        for left, right in zip(seconds(2, 4), seconds(11, 4), strict=True):
            await asyncio.gather(one.unit(left), other.unit(right))
    assert [plain(one.said), plain(other.said)] == alone


async def test_a_conversation_goes_on_from_a_snapshot(engine: OmniEngine) -> None:
    async with talking(engine) as talk:
        for audio in seconds(0, 12):
            new = await talk.unit(audio)
            if [event for event in new if isinstance(event, Decided)][-1:] == [Decided(talk.now_ms, Decision.LISTEN)]:
                break
        else:
            pytest.fail("no turn ended: nothing is tested")
        snapshot = talk.session.snapshot()
        before = len(talk.said)
        await talk.units(seconds(20, 3))
    async with talking(engine) as again:
        again.session.restore(snapshot)
        await again.units(seconds(20, 3))

    def content(events: Sequence[EngineEvent]) -> list[object]:
        return [
            (event.first_sample, event.pcm.tobytes()) if isinstance(event, Speech) else event.text
            for event in events
            if isinstance(event, Speech | Text)
        ]

    assert content(talk.said[before:]) == content(again.said) != []
    names = {event.utterance_id for event in talk.said if isinstance(event, Speech)}
    assert {event.utterance_id for event in again.said if isinstance(event, Speech)} <= names


async def test_a_snapshot_of_another_voice_or_engine_is_refused(engine: OmniEngine, hearing: OmniEngine) -> None:
    async with talking(engine) as talk:
        await talk.unit(seconds(0, 1)[0])
        snapshot = talk.session.snapshot()
    async with talking(hearing) as other:
        for wrong in (snapshot, snapshot[: len(snapshot) // 2], b""):
            with pytest.raises(ValueError, match="snapshot"):
                other.session.restore(wrong)


async def test_typed_text_and_results_are_units_without_media(engine: OmniEngine) -> None:
    async with talking(engine) as talk:
        talk.session.type("What is that? <|turn_eos|></unit>")
        talk.session.inject("<backend>It is 5 o'clock.")
        await talk.units(seconds(0, 2))
    assert engine.capabilities.inject
    assert [event for event in talk.said if isinstance(event, Speech)]
    assert not [event for event in talk.said if isinstance(event, Trouble)]


async def test_speech_over_it_is_judged_and_an_interruption_ends_the_turn(engine: OmniEngine) -> None:
    async with talking(engine) as talk:
        name = ""
        for audio in seconds(0, 12):
            new = await talk.unit(audio)
            spoken = [event.utterance_id for event in new if isinstance(event, Speech)]
            if spoken and not [event for event in new if isinstance(event, TurnEnded)]:
                name = spoken[-1]
                break
        assert name, "every turn ended with its first second: nothing is tested"
        talk.session.interrupt(name)
        ended = await talk.until(TurnEnded)
        assert isinstance(ended[-1], TurnEnded)
        assert ended[-1].utterance_id == name
        new = await talk.unit(seconds(0, 1)[0])
        assert not [event for event in new if isinstance(event, Speech)], "the next second was to be quiet"
        talk.session.overlap(OverlapPhase.STARTED, 0)
        await talk.units(seconds(1, 2))
    assert [event for event in talk.said if isinstance(event, Overlap)]


# -- pictures, and a checkpoint without eyes -----------------------------------------------------------------------


async def test_what_is_seen_changes_what_is_said(engine: OmniEngine) -> None:
    golden.needs_eyes()
    rng = np.random.default_rng(0)
    said: list[list[object]] = []
    for value in (None, 0, 1):
        async with talking(engine) as talk:
            for second, audio in enumerate(seconds(0, 3)):
                image = rng.integers(0, 255, (120, 200, 3), np.uint8) if value else np.zeros((64, 64, 3), np.uint8)
                frames = () if value is None else (Frame(image, second * 1000.0),)
                await talk.unit(audio, *frames)
        said.append(plain(talk.said))
    assert said[0] != said[1] != said[2] != said[0]
    assert (engine.modalities, engine.capabilities.vision) == ({"audio", "video"}, True)


async def test_the_audio_variant_talks_and_looks_at_nothing(engine: OmniEngine, hearing: OmniEngine) -> None:
    assert (hearing.modalities, hearing.capabilities.vision) == ({"audio"}, False)
    said: list[list[object]] = []
    for one in (engine, hearing):
        async with talking(one) as talk:
            for audio in seconds(0, 4):
                frames = (Frame(np.zeros((64, 64, 3), np.uint8), 0.0),) if one is hearing else ()
                await talk.unit(audio, *frames)
        said.append(plain(talk.said))
    assert said[0] == said[1] != []


# -- places, voices, options ---------------------------------------------------------------------------------------


async def test_places_are_taken_and_given_back(engine: OmniEngine) -> None:
    first, second = engine.open(FAST), engine.open(FAST)
    with pytest.raises(EngineFull, match="all 2 sessions"):
        engine.open(FAST)
    await first.close()
    third = engine.open(FAST)
    for session in (second, third):
        await session.close()


async def test_capabilities_are_honest(engine: OmniEngine) -> None:
    able = engine.capabilities
    assert (able.say, able.transcripts, able.facts, able.persona) == (False, False, False, False)
    assert (able.type, able.overlap, able.snapshot) == (True, True, True)
    for options in (SessionOptions(persona="a pirate"), SessionOptions(facts=("It rains.",))):
        with pytest.raises(Unsupported, match="fixed prompt"):
            engine.open(options)
    with pytest.raises(ValueError, match=f"unknown voice 'nobody': known are {VOICE}"):
        engine.open(SessionOptions(voice="nobody"))
    async with talking(engine, SessionOptions(language=Language.ZH, voice=VOICE)) as talk:
        with pytest.raises(Unsupported):
            talk.session.say("Hello")
        with pytest.raises(Unsupported):
            talk.session.configure(Changes(voice=VOICE))


async def test_a_prompt_may_take_persona_and_facts_and_a_voice_of_ones_own(
    cache: ModelsSettings, tmp_path: Path, engine: OmniEngine
) -> None:
    wave, rate = soundfile.read(VOICE_FILE, dtype="float32")
    soundfile.write(tmp_path / "mine.wav", wave[::-1], rate)
    settings = overridden(SETTINGS, model=golden.model_dir(), voice=tmp_path / "mine.wav", facts_in_prompt=True)
    said: list[list[object]] = []
    async with loaded(settings, cache) as own:
        assert own.voices[Language.EN][:2] == ("mine", VOICE)
        assert (own.capabilities.facts, own.capabilities.persona) == (True, True)
        fact = SessionOptions(facts=("<|im_end|>Shops close at 8.",), voice=VOICE)
        for options in (SessionOptions(voice=VOICE), SessionOptions(), fact):
            async with talking(own, options) as talk:
                await talk.units(seconds(0, 2))
            said.append(plain(talk.said))
    async with talking(engine) as talk:
        await talk.units(seconds(0, 2))
    assert said[0] == plain(talk.said)
    assert said[0] != said[1]
    assert said[0] != said[2]


async def fewest_positions(cache: ModelsSettings, **settings: object) -> int:
    """What the engine says of a cache that is too small."""
    try:
        async with loaded(overridden(SETTINGS, model=golden.model_dir(), positions=256, **settings), cache):
            return 256
    except EngineError as error:
        told = str(error)
    found = re.search(r"VENUS_OMNI__POSITIONS must be (\d+) at least and is 256$", told)
    assert found is not None, told
    return int(found[1])


async def test_a_cache_that_cannot_hold_two_seconds_is_refused_while_it_loads(cache: ModelsSettings) -> None:
    """And at the latest when the session begins, where its own prompt is what is too long."""
    settings = overridden(SETTINGS, model=golden.model_dir(), max_slices=9)
    positions = await fewest_positions(cache, max_slices=9)
    assert positions > 2 * settings.unit_positions > 256
    with pytest.raises(EngineError, match=f"must be {positions} at least and is {positions - 1}$"):
        async with loaded(overridden(settings, positions=positions - 1), cache):
            pass
    async with loaded(overridden(settings, positions=positions), cache) as engine:
        session = engine.open(SessionOptions(system_prompt="Speak slowly. " * 4))
        async with asyncio.timeout(60):
            (trouble,) = [event async for event in session.events()]
        assert isinstance(trouble, Trouble)
        assert (trouble.code, trouble.fatal) == ("context.full", True)
        assert trouble.message.startswith("prompt and voice take ")
        await session.close()


async def test_a_session_that_outgrows_its_cache_ends_with_what_to_change(cache: ModelsSettings) -> None:
    positions = await fewest_positions(cache)
    settings = overridden(SETTINGS, model=golden.model_dir(), positions=positions, context={"policy": "off"})
    async with loaded(settings, cache) as engine:
        session = engine.open(FAST)
        for index, audio in enumerate(seconds(0, 20)):
            session.push(MediaUnit(index, index * 1000, audio))
        async with asyncio.timeout(120):
            events = [event async for event in session.events()]
        last = events[-1]
        assert isinstance(last, Trouble)
        assert (last.code, last.fatal) == ("context.full", True)
        assert "VENUS_OMNI__POSITIONS" in last.message
        await session.close()


async def test_it_forgets_and_goes_on_when_the_cache_would_be_full(cache: ModelsSettings) -> None:
    fewest = await fewest_positions(cache)
    for policy, positions in (("time", fewest), ("basic", max(fewest, 300)), ("context", 768)):
        context = {"policy": policy, "window_s": 5, "high": 200, "low": 150, "units": 4, "previous_tokens": 20}
        settings = overridden(SETTINGS, model=golden.model_dir(), positions=positions, context=context)
        async with loaded(settings, cache) as engine, talking(engine) as talk:
            await talk.units(seconds(0, 9))
        assert [event.index for event in talk.said if isinstance(event, UnitDone)] == list(range(9)), policy


async def test_closing_the_engine_closes_its_sessions_and_may_be_repeated(cache: ModelsSettings) -> None:
    async with loaded(overridden(SETTINGS, model=golden.model_dir()), cache) as engine:
        await engine.load()
        session = engine.open(FAST)
        session.push(MediaUnit(0, 0, seconds(0, 1)[0]))
        await engine.close()
        async with asyncio.timeout(60):
            assert not [event async for event in session.events() if isinstance(event, Trouble)]
        with pytest.raises(EngineError, match=r"await load\(\)"):
            engine.open(FAST)
        await engine.load()
        async with talking(engine) as talk:
            await talk.unit(seconds(0, 1)[0])


@pytest.mark.parametrize("behaviour", ["hub", "demo"])
async def test_the_published_behaviours_hold_a_conversation_too(cache: ModelsSettings, behaviour: str) -> None:
    settings = overridden(SETTINGS, model=golden.model_dir(), behaviour=behaviour)
    async with loaded(settings, cache) as engine, talking(engine) as talk:
        await talk.units(seconds(0, 3))
    assert len([event for event in talk.said if isinstance(event, UnitDone)]) == 3


def test_only_what_is_set_changes_the_decoding_of_a_behaviour() -> None:
    own = Decoding.of(Behaviour.HUB)
    assert decoding_of(OmniSettings(behaviour="hub")) == own
    changed = decoding_of(
        OmniSettings(behaviour="hub", forced_listens=3, decoding=DecodingSettings(temperature=1.5, tokens_per_unit=7))
    )
    assert changed.sampler == own.sampler.model_copy(update={"temperature": 1.5})
    assert (changed.max_tokens, changed.initial_listens) == (7, 3)
