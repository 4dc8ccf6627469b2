"""The text of a unit: what comes to the host, what is shown, and coarser weights over the recorded sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.behaviour import Decoding
from realtime_venus.engines.omni.pieces import TextPiece
from torch import Tensor

from tests.kit import decisions, golden
from tests.kit.host_copies import host_copies
from tests.kit.omni_replay import Replay, recorded_sessions
from tests.kit.omni_script import (
    DEMO,
    HUB,
    VENUS,
    generate,
    listening,
    named,
    second,
    session,
    speaking,
    steer,
    told,
    unit,
)

CONTROLS = ("listen", "speak", "turn_eos", "chunk_eos")


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("said", [listening(), speaking("hello there"), speaking("bye", "turn_eos")])
def test_only_sampled_tokens_come_to_the_host(said: list[int]) -> None:
    made = session()
    unit(made, 0, speaking("so that there is a history"))
    made.prefill(second(1))
    with host_copies() as seen:
        done = generate(made, said)
    decided = len(done.end.ids) - 1
    assert seen == ["tolist"] * decided


def test_prefill_waits_for_nothing_of_the_thinker() -> None:
    made = session()
    unit(made, 0, speaking("hello"))
    with host_copies() as seen:
        made.prefill(text="a typed question")
    assert seen == []


def test_words_leave_while_the_unit_is_decoded() -> None:
    made = session()
    made.prefill(second(0))
    run: list[int] = []

    def forwards(work: Iterator[Any]) -> Iterator[int]:
        for piece in work:
            if isinstance(piece, TextPiece):
                yield len(run)

    said = speaking("one two three four")
    script = steer(said)

    def counted(logits: Tensor) -> Tensor:
        run.append(1)
        return script(logits)

    shown = list(forwards(made.generate(steer=counted)))
    assert len(shown) > 2
    assert shown == sorted(set(shown))


def test_published_codes_show_the_text_of_a_unit_at_once() -> None:
    done = unit(session(HUB), 0, speaking("one two three"))
    assert [piece.text for piece in done.of(TextPiece)] == [told("one two three")]


def test_character_that_two_units_share() -> None:
    """Ours shows it whole in the second unit, the published codes show two pieces of nothing."""
    tokens = session().model.tokens
    # some are tokens of their own in a large vocabulary, and cuneiform hardly in any
    candidates = [*"中文字语音视频天气你好éüßñ", *map(chr, range(0x12000, 0x12100))]
    spelt = {each: tokens.encode_plain(each) for each in candidates}
    whole = next(each for each, ids in spelt.items() if len(ids) > 1 and not {*ids} & {*tokens.forbidden})
    halves = spelt[whole]
    for behaviour, text in ((VENUS, whole), (HUB, "")):
        made = session(behaviour)
        first = unit(made, 0, [named("speak"), *halves[:1]])
        rest = unit(made, 1, [named("speak"), *halves[1:]])
        shown = first.text + rest.text
        assert shown.replace("\N{REPLACEMENT CHARACTER}", "") == text


@pytest.mark.parametrize("behaviour", [HUB, DEMO, VENUS])
def test_word_in_the_place_of_the_decision_is_lost_and_counted(behaviour: Any) -> None:
    made = session(behaviour)
    lost, *rest = speaking("ab c d e")[1:]
    done = unit(made, 0, [lost, *rest])
    assert done.text == made.model.tokens.decode(rest)
    assert (made.text.lost, done.end.tokens) == (1, len(rest))
    unit(made, 1, speaking("fine"))
    assert made.text.lost == 1


def test_unit_ends_before_it_has_too_many_tokens_or_characters() -> None:
    said = speaking("one two three four five six")
    short = Decoding.of(VENUS).model_copy(update={"max_tokens": 4})
    done = unit(session(decoding=short), 0, said)
    assert done.end.ids == (*said[:3], named("chunk_eos"), named("unit_end"))
    cut = unit(session(decoding=Decoding.of(DEMO)), 0, said)
    assert 20 < len(cut.text) < 28


def test_listen_in_an_open_turn_goes_on_speaking() -> None:
    made = session()
    unit(made, 0, speaking("well"))
    done = unit(made, 1, [*listening(), *speaking("then")[1:]])
    assert (done.end.is_listen, done.text, done.end.ids[0]) == (False, told("then"), named("tts_bos"))
    assert named("listen") in made.text.history


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(recorded_sessions()))
def test_coarser_weights_decide_alike(
    name: str, dtype: torch.dtype, record_property: Callable[[str, object], None]
) -> None:
    """Fed the recorded tokens: every decision whose margin is above the distance of the logits stays."""
    replay = Replay(name, dtype=dtype, speaks=False)
    replay.prepare()
    ours: list[Tensor] = []
    recorded: list[Any] = []
    biases: list[Any] = []
    for row in replay.units:
        played = replay.play(row, forced=True)
        assert list(played.end.ids) == row["total_ids"]
        if played.logits is None or f"pending_logits{row['unit']:02}" not in replay.arrays:
            continue
        ours.append(played.logits)
        recorded.append(replay.arrays[f"pending_logits{row['unit']:02}"])
        biases.append(np.zeros_like(recorded[-1]))
        if "decode_logits" in replay.arrays:
            first, stop = row["decode_calls"]
            ours += played.raw
            recorded += list(replay.arrays["decode_logits"][first:stop])
            biases += [replay.bias(call) for call in range(first, stop)]
    found = decisions.compare(
        np.stack(recorded),
        np.stack([each.numpy() for each in ours]),
        [named(token) for token in CONTROLS],
        bias=np.stack(biases),
    )
    record_property("largest distance of a logit", found.distance)
    record_property("decisions above it", len(found.firm))
    assert found.flipped_firm == []
    # of eight and of eleven bits, through a few layers
    largest = max(float(np.abs(each).max()) for each in recorded)
    assert found.distance < largest * (0.05 if dtype is torch.bfloat16 else 0.01)
    if "decode_logits" in replay.arrays and golden.record(name)["decode_calls"]:
        assert len(found.firm) > len(ours) // 2
