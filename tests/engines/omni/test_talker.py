from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.config import TalkerConfig
from realtime_venus.engines.omni.draws import SeededDraws, TextDraw
from realtime_venus.engines.omni.kv import Full
from realtime_venus.engines.omni.talker import MAX_NEW, Speech, Talker, TalkerChunk, TalkerState
from realtime_venus.engines.omni.talker_sampler import TalkerSettings, penalise_repeats
from torch import Tensor

from tests.kit import golden
from tests.kit.decoders import config, distance, outputs, talker, talker_config
from tests.kit.host_copies import host_copies

TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


class Recorded:
    """The recorded numbers of one chunk, no more and no fewer."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.left = list(numbers)

    def text(self) -> TextDraw:
        raise AssertionError("speech draws no text")

    def code(self) -> float:
        return self.left.pop(0)


def chunks() -> list[dict[str, int]]:
    """The columns of the recorded turn, chunk by chunk."""
    arrays = golden.stage("talker")
    names: list[str] = arrays["chunk_columns"].tolist()
    return [dict(zip(names, row, strict=True)) for row in arrays["chunks"].tolist()]


def room() -> int:
    """Positions that the recorded turn needs, the rest of a last chunk included."""
    return max(columns["kv_len_after"] for columns in chunks()) + MAX_NEW


def condition(chunk: int, model: Talker) -> Tensor:
    arrays = golden.stage("talker")
    return model.condition(arrays[f"c{chunk}_ids"].tolist(), torch.as_tensor(arrays[f"c{chunk}_hidden"]))


def speak(model: Talker, state: TalkerState, chunk: int) -> TalkerChunk:
    arrays, columns = golden.stage("talker"), chunks()[chunk]
    draws = Recorded(arrays[f"c{chunk}_u_f64"].tolist())
    spoken = model.speak(
        state,
        condition(chunk, model),
        min_new=columns["min_new_tokens"],
        max_new=columns["max_new_token"],
        draws=draws,
    )
    assert draws.left == []
    return spoken


def test_names_and_shapes_of_the_released_checkpoint() -> None:
    stored: dict[str, list[int]] = {
        name.removeprefix("tts."): shape
        for name, shape in golden.record("full_size_layout")["main"].items()
        if name.startswith("tts.")
    }
    del stored["model.embed_tokens.weight"]
    gain = stored.pop("head_code.0.parametrizations.weight.original0")
    folded = stored.pop("head_code.0.parametrizations.weight.original1")
    assert gain == [folded[0], 1]
    stored["head_code.0.weight"] = folded
    released = TalkerConfig(
        llm_dim=stored["projector_semantic.linear1.weight"][1],
        num_text_tokens=stored["emb_text.weight"][0],
        num_audio_tokens=folded[0],
        audio_bos_token_id=0,
        text_eos_token_id=0,
        hidden_size=folded[1],
        intermediate_size=stored["model.layers.0.mlp.up_proj.weight"][0],
        num_hidden_layers=1 + max(int(name.split(".")[2]) for name in stored if re.match(r"model\.layers\.", name)),
    )
    with torch.device("meta"):
        module = Talker(released)
    assert {name: list(tensor.shape) for name, tensor in module.state_dict().items()} == stored


def test_projectors_and_head_equal_the_recorded_ones() -> None:
    arrays, model = golden.stage("talker"), talker()
    given = arrays["projector_semantic_in"]
    assert np.array_equal(given, golden.normal(golden.seeds()["talker_projector"], *given.shape))
    for name, module in (("semantic", model.projector_semantic), ("spk", model.projector_spk)):
        assert distance(module(torch.as_tensor(given)), arrays[f"projector_{name}_out"]) < TOLERANCE
    head = cast(Tensor, model.head_code[0].weight)
    for row in torch.as_tensor(arrays["head_code_folded_rows"]):
        assert (head - row).abs().amax(1).min() < 1e-6


def test_every_layer_equals_the_recorded_one() -> None:
    arrays, model = golden.stage("debug_layers"), talker()
    seed, shape = golden.seeds()["talker_debug"], arrays["tts_in"].shape
    assert np.array_equal(arrays["tts_in"], (golden.normal(seed["seed"], *shape) * seed["scale"]).astype(np.float32))
    watched: dict[str, torch.nn.Module] = {}
    for index, layer in enumerate(model.model.layers):
        for name, path in (
            ("input_norm", "input_layernorm"),
            ("attn_out", "self_attn"),
            ("mlp_out", "mlp"),
            ("out", ""),
        ):
            watched[f"tts_l{index}_{name}"] = layer.get_submodule(path)
    cache = model.cache(shape[0])
    with outputs(**watched) as seen:
        logits = model(torch.as_tensor(arrays["tts_in"])[None], cache)
    recorded = {name for name in arrays if name.startswith("tts_")}
    assert recorded == watched.keys() | {"tts_in", "tts_final_norm", "tts_logits_last_head"}
    for name, (output,) in seen.items():
        assert distance(output[0], arrays[name]) < TOLERANCE, name
    last = model.model.norm(seen[f"tts_l{len(model.model.layers) - 1}_out"][0][0])
    assert distance(last, arrays["tts_final_norm"]) < TOLERANCE
    head = arrays["tts_logits_last_head"]
    assert distance(logits[0, : len(head)], head) < TOLERANCE


REPEATS = [name.removesuffix("_hist") for name in golden.stage("talker") if re.fullmatch(r"rep\d+_hist", name)]


def test_repeats_were_recorded_within_and_beyond_the_window() -> None:
    lengths = [len(golden.stage("talker")[f"{name}_hist"]) for name in REPEATS]
    assert min(lengths) < TalkerSettings().repetition_window < max(lengths)


@pytest.mark.parametrize("name", REPEATS)
def test_repeats_are_penalised_as_recorded(name: str) -> None:
    arrays, window = golden.stage("talker"), TalkerSettings().repetition_window
    scores = torch.as_tensor(arrays[f"{name}_scores_head"])
    recent = torch.as_tensor(arrays[f"{name}_hist"][-window:])
    penalised = penalise_repeats(scores, recent, TalkerSettings().repetition_penalty)
    assert distance(penalised, arrays[f"{name}_out_head"]) < 1e-5


def test_the_recorded_turn() -> None:
    arrays, model = golden.stage("talker"), talker()
    state = TalkerState(model, capacity=room())
    for chunk, columns in enumerate(chunks()):
        hidden, ids = arrays[f"c{chunk}_hidden"], arrays[f"c{chunk}_ids"]
        assert np.array_equal(
            hidden, golden.normal(golden.seeds()["talker_hidden_base"] + chunk, len(ids), *hidden.shape[1:])
        )
        assert state.position == columns["text_start_pos"]
        made = condition(chunk, model)
        assert distance(made, arrays[f"c{chunk}_cond"]) < TOLERANCE
        assert len(made) == columns["cond_len"]
        with outputs(head=model.head_code[0]) as seen:
            spoken = speak(model, state, chunk)
        assert spoken.codes == arrays[f"c{chunk}_codes"].tolist()
        assert len(spoken.codes) == columns["codes_returned"]
        assert spoken.ended == (arrays[f"c{chunk}_draw_idx"][-1] == model.end_of_speech)
        assert state.position == columns["kv_len_after"] == arrays[f"c{chunk}_kv_len"][0]
        check_logits(chunk, torch.cat(seen["head"]))
        layer = len(model.model.layers) - 1
        for kind, buffer in (("k", state.cache.k), ("v", state.cache.v)):
            tail = arrays[f"c{chunk}_{kind}_l{layer}_tail"]
            stop = state.position
            assert distance(buffer[layer, 0, :, stop - tail.shape[1] : stop], tail) < TOLERANCE


def check_logits(chunk: int, logits: Tensor) -> None:
    """``logits [steps, codes]`` of a chunk against what was kept of the recorded ones."""
    arrays = golden.stage("talker")
    ids = torch.as_tensor(arrays[f"c{chunk}_raw_logits_top_ids"]).long()
    assert distance(logits.gather(1, ids), arrays[f"c{chunk}_raw_logits_top_vals"]) < TOLERANCE
    assert distance(logits.logsumexp(1), arrays[f"c{chunk}_raw_logits_lse"]) < TOLERANCE
    steps = [name for name in arrays if re.fullmatch(rf"c{chunk}_raw_logits_step\d+", name)]
    for name in steps:
        assert distance(logits[int(name.rpartition("step")[2])], arrays[name]) < TOLERANCE
    # the numbers drawn lie far enough from the edges for the codes to be a fair test
    assert arrays[f"c{chunk}_margin"].min() > 1e-5


def test_whole_logits_were_recorded_for_some_steps() -> None:
    assert any(re.fullmatch(r"c\d+_raw_logits_step\d+", name) for name in golden.stage("talker"))


def test_the_drawn_codes_are_the_returned_ones_and_one_more() -> None:
    arrays = golden.stage("talker")
    for chunk, columns in enumerate(chunks()):
        drawn = arrays[f"c{chunk}_draw_idx"]
        assert columns["max_new_token"] == MAX_NEW
        assert len(drawn) == MAX_NEW or drawn[-1] == talker().end_of_speech
        assert np.array_equal(drawn[:-1], arrays[f"c{chunk}_codes"])


def some_condition(length: int, seed: int = 1) -> Tensor:
    model = talker()
    ids = [(seed + 7 * token) % config().vocab_size for token in range(length)]
    return model.condition(ids, torch.as_tensor(golden.normal(seed, length, talker_config().llm_dim)))


@pytest.mark.parametrize("step", [0, 1, 7, 24])
def test_the_end_of_speech_ends_a_chunk(step: int) -> None:
    model = talker()
    state, made = TalkerState(model), some_condition(3)
    bias = {step: {model.end_of_speech: 60.0}}
    spoken = model.speak(state, made, min_new=0, draws=SeededDraws(1), bias=bias)
    assert spoken.ended
    assert len(spoken.codes) == step
    assert state.position == len(made) + step
    whole = model.speak(TalkerState(model), made, min_new=0, draws=SeededDraws(1))
    assert len(whole.codes) == MAX_NEW - 1
    assert spoken.codes == whole.codes[:step]


def test_the_end_of_speech_cannot_be_drawn_too_early() -> None:
    model = talker()
    always = {step: {model.end_of_speech: 60.0} for step in range(MAX_NEW)}
    middle = model.speak(TalkerState(model), some_condition(3), min_new=MAX_NEW, draws=SeededDraws(1), bias=always)
    assert len(middle.codes) == MAX_NEW - 1
    assert not middle.ended
    assert model.end_of_speech not in middle.codes
    late = model.speak(TalkerState(model), some_condition(3), min_new=5, draws=SeededDraws(1), bias=always)
    assert (len(late.codes), late.ended) == (5, True)


def test_the_settings_change_what_is_drawn() -> None:
    model, made = talker(), some_condition(2)

    def codes(**changes: Any) -> list[int]:
        chosen = TalkerSettings(**changes)
        return model.speak(TalkerState(model), made, min_new=26, draws=SeededDraws(5), settings=chosen).codes

    assert codes() == codes(temperature=0.8, repetition_penalty=1.05, repetition_window=16)
    cold = codes(temperature=0.01, repetition_penalty=1.0)
    assert cold != codes(temperature=1.5)
    assert cold == codes(temperature=0.01, repetition_window=0)
    strict = codes(temperature=0.01, repetition_penalty=50.0, repetition_window=25)
    assert len(set(strict)) == len(strict)


def speeches(states: Sequence[TalkerState]) -> Iterator[Speech]:
    """Ragged conditions; of four sessions one ends at step 3, one at once and one must not."""
    end = talker().end_of_speech
    plans: list[tuple[int, int, dict[int, dict[int, float]]]] = [
        (5, 0, {3: {end: 60.0}}),
        (0, 26, {4: {end: 60.0}}),
        (9, 0, {0: {end: 60.0}}),
        (2, 0, {}),
    ]
    for number, (state, (length, least, bias)) in enumerate(zip(states, plans, strict=True)):
        yield Speech(state, some_condition(length, seed=number), least, SeededDraws(number), bias=bias)


def test_speech_in_lock_step_equals_speech_alone() -> None:
    model = talker()
    cache = model.cache(200, slots=5)
    shared = [TalkerState(model, cache=cache, slot=slot) for slot in (3, 0, 4, 1)]
    single = [TalkerState(model, capacity=200) for _ in shared]
    for _ in range(2):
        together = model.speak_together(list(speeches(shared)))
        alone = [model.speak_together([speech])[0] for speech in speeches(single)]
        assert together == alone
        assert [len(chunk.codes) for chunk in together][:3] == [3, 25, 0]
        assert [state.position for state in shared] == [state.position for state in single]
    assert cache.length(2) == 0
    assert model.speak_together([]) == []
    with pytest.raises(ValueError, match="share a cache"):
        model.speak_together(list(speeches(single)))


def test_two_turns_in_turns_equal_two_alone() -> None:
    model = talker()

    def turn(state: TalkerState, seed: int) -> Iterator[list[int]]:
        draws = SeededDraws(seed)
        for chunk in range(3):
            yield model.speak(state, some_condition(2 + chunk, seed=seed), min_new=0, draws=draws).codes

    alone = [list(turn(TalkerState(model), seed)) for seed in (1, 2)]
    mixed = list(zip(turn(TalkerState(model), 1), turn(TalkerState(model), 2), strict=True))
    assert mixed == list(zip(*alone, strict=True))
    assert alone[0] != alone[1]


def test_a_restored_turn_goes_on_the_same_and_a_reset_one_is_new() -> None:
    model, arrays = talker(), golden.stage("talker")
    state = TalkerState(model, capacity=room())
    speak(model, state, 0)
    snapshot = state.snapshot()
    speak(model, state, 1)
    state.restore(snapshot)
    assert speak(model, state, 1).codes == arrays["c1_codes"].tolist()
    state.reset()
    assert (state.position, state.room) == (0, room())
    assert speak(model, state, 0).codes == arrays["c0_codes"].tolist()


def test_a_chunk_that_does_not_fit_is_refused_whole() -> None:
    model = talker()
    made = some_condition(4)
    state = TalkerState(model, capacity=len(made) + 24)
    with pytest.raises(Full):
        model.speak(state, made, min_new=0, draws=SeededDraws(1))
    assert state.position == 0
    fitting = TalkerState(model, capacity=len(made) + 25)
    model.speak(fitting, made, min_new=26, draws=SeededDraws(1))
    assert fitting.room == 0


def test_mid_turn_the_host_waits_once_for_a_chunk() -> None:
    model = talker()
    made, draws = some_condition(3), SeededDraws(1)
    with host_copies() as seen:
        model.speak(TalkerState(model), made, min_new=26, draws=draws)
    assert seen == ["tolist"]
    with host_copies() as seen:
        spoken = model.speak(TalkerState(model), made, min_new=0, draws=draws)
    assert seen == ["tolist"] * (len(spoken.codes) + 1 + 1)


@pytest.mark.parametrize(("dtype", "share"), [(torch.bfloat16, 0.06), (torch.float16, 0.008)])
def test_coarse_types_stay_near(
    dtype: torch.dtype, share: float, record_property: Callable[[str, object], None]
) -> None:
    arrays, model = golden.stage("talker"), talker(dtype)
    made = model.condition(arrays["c0_ids"].tolist(), torch.as_tensor(arrays["c0_hidden"]))
    assert made.dtype == dtype
    logits = model(made[None], model.cache(len(made)))
    assert logits.dtype == torch.float32
    away = distance(logits[0], arrays["c0_raw_logits_step0"])
    record_property(f"logit distance {dtype}", away)
    assert away < share * float(np.abs(arrays["c0_raw_logits_step0"]).max())
