"""What is mended: the published codes' way and ours, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.behaviour import RULES, Behaviour, Decoding, Rules
from realtime_venus.engines.omni.duplex import Duplex
from realtime_venus.engines.omni.noises import noise_of
from realtime_venus.engines.omni.token2wav.stream import Token2Wav
from torch import nn

from tests.kit import golden
from tests.kit.omni_replay import model
from tests.kit.omni_script import (
    DEMO,
    HUB,
    VENUS,
    ScriptedCodes,
    Unit,
    close,
    generate,
    listening,
    named,
    prepare,
    prompt,
    second,
    session,
    speaking,
    told,
    unit,
    words,
)

CHUNK = 25


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def test_last_words_are_drained_after_the_turn_has_ended() -> None:
    """The talker is in the middle of a word when the turn ends, and needs seven more codes."""
    ends = CHUNK + 1 + 7

    def end_of_turn(behaviour: Behaviour) -> Unit:
        made = session(behaviour, speaks=True, draws=ScriptedCodes(ends))
        return unit(made, 0, speaking("hello there", "turn_eos"))

    cut, whole = end_of_turn(HUB), end_of_turn(VENUS)
    assert (cut.end.codes, whole.end.codes) == (CHUNK, CHUNK + 7)
    # 40 ms a code: what is rendered is the three codes of silence, all that was made, and what the vocoder held back
    assert len(whole.pcm) - len(cut.pcm) == 7 * 960
    assert np.abs(whole.pcm[:24_000] - cut.pcm[:24_000]).max() < 1e-4


def test_draining_has_a_limit() -> None:
    made = session(VENUS, speaks=True, draws=ScriptedCodes())
    done = unit(made, 0, speaking("hello there", "turn_eos"))
    assert done.end.codes == CHUNK * (1 + RULES[VENUS].drain_chunks)
    assert made.voice.speech is not None
    assert made.voice.speech.talker.position == 0


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_listen_right_after_the_end_of_a_turn(behaviour: Behaviour) -> None:
    made = session(behaviour, speaks=True, draws=ScriptedCodes(10))
    done = unit(made, 0, speaking("goodbye", "turn_eos", "listen"))
    assert done.end.ids[-2:] == (named("listen"), named("unit_end"))
    if behaviour is VENUS:
        assert (done.end.is_listen, done.end.end_of_turn, done.end.codes) == (False, True, 10)
        assert done.text == done.end.text == told("goodbye")
        assert np.abs(done.pcm).max() > 0
    else:
        assert (done.end.is_listen, done.end.end_of_turn, done.end.codes) == (True, False, 0)
        assert done.text == done.end.text == ""
        assert np.abs(done.pcm).max() == 0
    assert not made.text.turn_open


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_forced_listen_in_the_middle_of_a_turn(behaviour: Behaviour) -> None:
    made = session(behaviour, speaks=True, draws=ScriptedCodes())
    unit(made, 0, speaking("hello there"))
    speech = made.voice.speech
    assert speech is not None
    spoken = speech.talker.position
    done = unit(made, 1, force_listen=True)
    assert done.end.ids == (named("turn_eos"), named("listen"), named("unit_end"))
    assert (done.end.is_listen, done.end.turn_closed, made.text.turn_open) == (True, True, False)
    assert speech.talker.position == (0 if behaviour is VENUS else spoken)
    again = unit(made, 2, speaking("well"))
    # a turn that goes on with the old position is the middle of one for the talker, which must then fill its chunk
    assert speech.chunks[0].shortest == (0 if behaviour is VENUS else CHUNK + 1)
    assert again.end.codes == CHUNK


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_audio_memory_at_the_start_of_a_session(behaviour: Behaviour) -> None:
    made = session(behaviour)
    fresh = made.prefill(second(5))
    unit(made, 6, listening())
    prepare(made)
    assert made.input.hearing is not None
    assert (made.input.hearing.cached == 0) is (behaviour is VENUS)
    again = made.prefill(second(5))
    assert fresh is not None
    assert again is not None
    assert fresh.audio is not None
    assert again.audio is not None
    assert close(fresh.audio, again.audio) is (behaviour is VENUS)


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_reference_voice_after_a_short_session(behaviour: Behaviour) -> None:
    """A session of under five seconds leaves its log floor behind, and the next reference voice is heard with it."""
    beginning, end, _ = prompt()
    # of a voice with a pause: only what is far below the loudest is clipped by the one floor and not by the other
    pausing = np.concatenate([second(4), np.zeros(16_000, np.float32)])
    made = session(behaviour, prepared=False)
    made.prepare(beginning, end, pausing)
    fresh = made.cache.k[:, :, :, : made.length].clone()
    unit(made, 0, listening())
    made.prepare(beginning, end, pausing)
    again = made.cache.k[:, :, :, : made.length]
    assert close(fresh, again) is (behaviour is VENUS)


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_noise_of_two_sessions(behaviour: Behaviour) -> None:
    shared = model()
    assert shared.token2wav is not None

    def spoken() -> Unit:
        noise = noise_of(behaviour, 5)
        assert shared.token2wav is not None
        own = Token2Wav(shared.token2wav.flow, shared.token2wav.hift, noise=noise)
        made = session(behaviour, speaks=True, of=replace(shared, token2wav=own), draws=ScriptedCodes())
        return unit(made, 0, speaking("hello there"))

    first, second_time = spoken(), spoken()
    assert np.array_equal(first.pcm, second_time.pcm) is (behaviour is VENUS)


def test_other_seeds_give_other_noise() -> None:
    assert not torch.equal(noise_of(VENUS, 1).vocoder(480, 0), noise_of(VENUS, 2).vocoder(480, 0))


def test_audio_that_is_too_short() -> None:
    """As recorded: what it leaves in the context, what is kept for the next unit; ours leaves nothing."""
    columns = golden.stage("audio_odd_chunks")["columns"].tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in golden.stage("audio_odd_chunks")["rows"].tolist()]
    start = int(golden.stage("audio_odd_chunks")["start_sample"][0])
    made = {behaviour: session(behaviour) for behaviour in (HUB, VENUS)}
    begun = {behaviour: each.length for behaviour, each in made.items()}
    marks = 0
    for row in rows:
        stop = start + row["samples_in"]
        for behaviour, each in made.items():
            fed = each.prefill(golden.microphone()[start:stop])
            assert (fed is not None) == bool(row["success"])
            assert each.input.hearing is not None
            assert each.input.hearing.carry == row["buffer_after"]
            grown = each.length - begun[behaviour]
            marks += behaviour is HUB and fed is None
            assert grown == row["llm_cache_len"] - (marks if behaviour is VENUS else 0)
        start = stop
    assert marks > 0


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_text_beside_media(behaviour: Behaviour) -> None:
    """The decision: behind the text with us, as the checkpoints were trained; before it in the published codes."""
    told, silent = session(behaviour), session(behaviour)
    told.prefill(second(0), text=words("hello"))
    silent.prefill(second(0))
    assert told.pending is not None
    assert silent.pending is not None
    assert told.length == silent.length + len(words("hello"))
    assert close(told.pending.logits, silent.pending.logits) is (behaviour is not VENUS)


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_silence(behaviour: Behaviour) -> None:
    """A second of zeros for a unit that listens, and one for a unit whose speech is too little to be rendered."""
    made = session(behaviour, speaks=True, draws=ScriptedCodes(0))
    assert len(unit(made, 0, listening()).pcm) == (0 if behaviour is VENUS else 24_000)
    empty = unit(made, 1, speaking("well"))
    assert (empty.end.codes, len(empty.pcm)) == (0, 24_000 if behaviour is DEMO else 0)
    assert made.voice.speech is not None
    # it has begun to speak all the same: the next chunk is one of the middle of a turn
    assert made.voice.speech.pending


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_break(behaviour: Behaviour) -> None:
    made = session(behaviour, speaks=True, draws=ScriptedCodes())
    unit(made, 0, speaking("hello there"))
    before = made.length
    made.break_off()
    done = unit(made, 1, speaking("and on"))
    assert done.end.is_listen
    if behaviour is VENUS:
        assert done.end.ids == (named("turn_eos"), named("listen"), named("unit_end"))
        assert not made.text.turn_open
    else:
        assert (made.length, done.end.ids, done.end.end_of_turn) == (before, (), True)
        assert made.text.turn_open
        made.resume()
    assert not unit(made, 2, speaking("again")).end.is_listen


def test_break_without_an_open_turn_changes_nothing() -> None:
    made = session()
    made.break_off()
    assert not unit(made, 0, speaking("hello")).end.is_listen


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_forwards_of_a_unit(behaviour: Behaviour) -> None:
    """One and one for each decoded token with us; the published codes close each unit with forwards of its own."""
    made = session(behaviour)
    run: list[int] = []

    def count(_module: nn.Module, _inputs: object, _output: object) -> None:
        run.append(1)

    handle = made.model.thinker.register_forward_hook(count)
    try:
        for number, said in enumerate([listening(), speaking("hello"), listening()]):
            run.clear()
            done = unit(made, number, said)
            decoded = len(done.end.ids) - 2
            closing = {HUB: 2, DEMO: 1, VENUS: 0}[behaviour]
            assert len(run) == 1 + decoded + closing
            assert done.end.forwards == len(run) - (behaviour is DEMO)
    finally:
        handle.remove()


def test_rules_differ_in_every_field_that_names_a_fault() -> None:
    for field in fields(Rules):
        ours, theirs = getattr(RULES[VENUS], field.name), getattr(RULES[HUB], field.name)
        assert (ours == theirs) is (field.name in {"flush_always", "silence_when_empty"}), field.name


def test_decoding_defaults() -> None:
    ours, hub, demo = (Decoding.of(behaviour) for behaviour in (VENUS, HUB, DEMO))
    sampler = ours.sampler
    assert (ours.max_tokens, sampler.temperature, sampler.top_k, sampler.top_p) == (50, 0.7, 20, 0.8)
    assert (sampler.repetition_penalty, sampler.repetition_window) == (1.05, 512)
    assert (sampler.length_penalty, sampler.listen_prob_scale) == (0.8, 1.0)
    # the published codes make what was said with a negative logit likelier, and their listen controls act on a token
    # that a unit never contains
    assert (sampler.signed_repetition, hub.sampler.signed_repetition) == (True, False)
    assert (sampler.listen_control, hub.sampler.listen_control) == ("listen", "im_end")
    assert (hub.max_tokens, hub.sampler.length_penalty, hub.max_characters) == (20, 1.1, None)
    assert demo == hub.model_copy(update={"max_characters": 28})


def test_first_units_may_be_made_to_listen() -> None:
    made = session(decoding=Decoding.of(VENUS).model_copy(update={"initial_listens": 2}))
    decided = [unit(made, number, speaking("hi", "turn_eos")).end.is_listen for number in range(3)]
    assert decided == [True, True, False]


def test_nothing_fed_is_nothing_decided() -> None:
    made: Duplex = session()
    done = generate(made)
    assert (done.pieces, done.end.is_listen, done.end.ids) == ([], True, ())
