from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.kv import Full, KVCache
from realtime_venus.engines.omni.thinker import Step, Thinker
from realtime_venus.engines.omni.tokens import Tokens
from torch import Tensor

from tests.kit import golden
from tests.kit.decisions import compare
from tests.kit.decoders import config, distance, outputs, thinker
from tests.kit.host_copies import host_copies

TOLERANCE = 1e-4
COARSE = {torch.bfloat16: 0.06, torch.float16: 0.008}
"""Largest deviation of a logit in these types, as a share of the largest, with room."""


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def embeds(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """``[1, S, hidden]`` of the recorded prefill."""
    return torch.as_tensor(golden.stage("llm_prefill")[f"{name}_embeds"]).to(dtype)[None]


def some(count: int, seed: int = 5, rows: int = 1) -> Tensor:
    return torch.as_tensor(golden.normal(seed, rows, count, config().hidden_size)) * 0.6


def check_near(ours: Tensor, expected: Tensor) -> None:
    """Within 1e-5 of the largest value: what another order of the same sums makes of float32."""
    torch.testing.assert_close(ours, expected, atol=1e-5 * float(expected.abs().max().clamp(min=1)), rtol=0)


def room() -> int:
    """Positions that the recorded prefill and the words after it need, and some."""
    return sum(embeds(name).shape[1] for name in "abc") + 8


def prefilled(model: Thinker) -> tuple[KVCache, dict[str, Step]]:
    """The recorded prefill in its three parts."""
    cache = model.cache(room())
    dtype = model.lm_head.weight.dtype
    return cache, {name: model(embeds(name, dtype), cache, hidden_all=True) for name in "abc"}


def test_names_and_shapes_of_the_released_checkpoint() -> None:
    stored: dict[str, list[int]] = {
        name.removeprefix("llm."): shape
        for name, shape in golden.record("full_size_layout")["main"].items()
        if name.startswith("llm.")
    }
    head_dim = stored["model.layers.0.self_attn.q_norm.weight"][0]
    queries, hidden = stored["model.layers.0.self_attn.q_proj.weight"]
    released = OmniConfig(
        vocab_size=stored["lm_head.weight"][0],
        hidden_size=hidden,
        intermediate_size=stored["model.layers.0.mlp.up_proj.weight"][0],
        num_hidden_layers=1 + max(int(name.split(".")[2]) for name in stored if re.match(r"model\.layers\.", name)),
        num_attention_heads=queries // head_dim,
        num_key_value_heads=stored["model.layers.0.self_attn.k_proj.weight"][0] // head_dim,
        head_dim=head_dim,
        rope_theta=1e6,
    )
    with torch.device("meta"):
        module = Thinker(released)
    assert {name: list(tensor.shape) for name, tensor in module.state_dict().items()} == stored


def test_prefill_equals_the_recorded_one() -> None:
    arrays, model = golden.stage("llm_prefill"), thinker()
    seed = golden.seeds()["llm_prefill_embeds"]
    assert np.array_equal(arrays["b_embeds"], golden.normal(seed["seed"], *arrays["b_embeds"].shape) * seed["scale"])
    assert distance(model.embed(arrays["ids_a"].tolist()), arrays["a_embeds"]) == 0
    cache, steps = prefilled(model)
    for name, step in steps.items():
        assert distance(step.hidden[0], arrays[f"{name}_hidden"]) < TOLERANCE
        assert distance(step.logits[0], arrays[f"{name}_logits_last"]) < TOLERANCE
    every = model.lm_head(steps["b"].hidden[0])
    stride = -(-len(every) // len(arrays["b_logits_rows"]))
    assert distance(every[::stride], arrays["b_logits_rows"]) < TOLERANCE
    length = sum(len(arrays[f"{name}_embeds"]) for name in "abc")
    assert cache.length() == length
    for layer in range(config().num_hidden_layers):
        for kind, buffer in (("k", cache.k), ("v", cache.v)):
            tail = arrays[f"kv_l{layer}_{kind}_tail"]
            assert distance(buffer[layer, 0, :, length - tail.shape[1] : length], tail) < TOLERANCE


def test_text_of_the_recorded_prefill_is_embedded_by_the_table() -> None:
    table = thinker().model.embed_tokens.weight
    for row in embeds("c")[0]:
        assert (table == row).all(1).any()


def test_one_merged_forward_equals_the_recorded_one() -> None:
    model = thinker()
    step = model(torch.cat([embeds(name) for name in "abc"], dim=1), model.cache(room()))
    assert distance(step.logits[0], golden.stage("llm_prefill")["merged_logits_last"]) < TOLERANCE


def test_evictions_equal_the_recorded_ones() -> None:
    arrays, model = golden.stage("llm_prefill"), thinker()
    plan = golden.seeds()["evict"]
    cache, _ = prefilled(model)
    assert cache.length() == arrays["evict_len_before"][0]
    for count in plan["dropped"]:
        cache.evict(0, plan["protected"], count)
    length = cache.length()
    assert length == arrays["evict_len_after"][0]
    assert sum(plan["dropped"]) == arrays["evict_position_offset"][0]
    layers = sorted(int(name.split("_")[1][1:]) for name in arrays if re.fullmatch(r"evict_l\d+_k", name))
    assert layers
    for layer in layers:
        assert distance(cache.k[layer, 0, :, :length], arrays[f"evict_l{layer}_k"]) < TOLERANCE
        total = float(cache.v[layer, 0, :, :length].double().sum())
        assert total == pytest.approx(arrays[f"evict_l{layer}_v_sum_f64"][0], abs=1e-2)
    ids = Tokens.load(golden.model_dir(), config()).encode(plan["next_text"])
    step = model(model.embed(ids)[None], cache, hidden_all=True)
    assert distance(step.hidden[0], arrays["evict_next_hidden"]) < TOLERANCE
    assert distance(step.logits[0], arrays["evict_next_logits"]) < TOLERANCE


def test_every_layer_equals_the_recorded_one() -> None:
    arrays, model = golden.stage("debug_layers"), thinker()
    watched: dict[str, torch.nn.Module] = {"llm_final_norm": model.model.norm}
    for index, layer in enumerate(model.model.layers):
        parts = {
            "input_norm": "input_layernorm",
            "q_proj": "self_attn.q_proj",
            "q_norm": "self_attn.q_norm",
            "k_norm": "self_attn.k_norm",
            "attn_out": "self_attn",
            "mlp_out": "mlp",
            "out": "",
        }
        for name, path in parts.items():
            watched[f"llm_l{index}_{name}"] = layer.get_submodule(path)
    ids: list[int] = arrays["llm_ids"].tolist()
    with outputs(**watched) as seen:
        step = model(model.embed(ids)[None], model.cache(len(ids)), hidden_all=True)
    recorded = {name for name in arrays if name.startswith("llm_")}
    assert recorded == watched.keys() | {"llm_ids", "llm_logits_last", "llm_rope_cos"}
    for name, (output,) in seen.items():
        assert distance(output[0], arrays[name]) < TOLERANCE, name
    assert distance(step.logits[0], arrays["llm_logits_last"]) < TOLERANCE


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_merged_prefill_equals_split_prefill(parts: list[int]) -> None:
    model, total = thinker(), sum(parts)
    with torch.inference_mode():
        whole, pieces = model.cache(total), model.cache(total)
        given_embeds = some(total)
        merged = model(given_embeds, whole, hidden_all=True)
        steps = [model(part, pieces, hidden_all=True) for part in torch.split(given_embeds, parts, dim=1)]
        check_near(merged.logits, steps[-1].logits)
        check_near(merged.hidden, torch.cat([s.hidden for s in steps], 1))
        check_near(whole.k, pieces.k)
        check_near(whole.v, pieces.v)


def test_hidden_of_the_last_row_is_that_of_all_rows() -> None:
    model = thinker()
    last, every = (model(some(7), model.cache(8), hidden_all=rows) for rows in (False, True))
    torch.testing.assert_close(last.hidden, every.hidden[:, -1])
    torch.testing.assert_close(last.logits, every.logits)


def test_ragged_sessions_in_lock_step_equal_single_ones() -> None:
    """Prefills of different lengths, then tokens, with one session idle in turn."""
    model, slots = thinker(), [2, 0, 3]
    together = model.cache(40, slots=4)
    singles = [model.cache(40) for _ in slots]
    for round_number, counts in enumerate([[9, 4, 1], [1, 0, 1], [1, 1, 0], [3, 12, 0], [1, 1, 1]]):
        width = max(counts)
        given_embeds = some(width, seed=round_number, rows=len(slots))
        step = model(given_embeds, together, counts, slots=slots)
        for row, (count, single) in enumerate(zip(counts, singles, strict=True)):
            if count:
                alone = model(given_embeds[row : row + 1, :count], single)
                check_near(step.logits[row], alone.logits[0])
                check_near(step.hidden[row], alone.hidden[0])
    assert [together.length(slot) for slot in slots] == [single.length() for single in singles] == [15, 18, 3]
    assert together.length(1) == 0


def test_two_sessions_in_turns_equal_two_alone() -> None:
    model = thinker()

    def run(cache: KVCache, slot: int, seed: int, part: int) -> Tensor:
        return model(some(3 + part, seed=seed + part), cache, slots=[slot]).logits

    shared, alone = model.cache(40, slots=2), [model.cache(40), model.cache(40)]
    mixed = [[run(shared, slot, 10 * slot, part) for slot in (0, 1)] for part in range(4)]
    for slot in (0, 1):
        for part in range(4):
            assert torch.equal(run(alone[slot], 0, 10 * slot, part), mixed[part][slot])


def test_a_restored_session_goes_on_the_same() -> None:
    model, cache = thinker(), thinker().cache(40)
    model(some(12), cache)
    snapshot = cache.snapshot()
    first = model(some(5, seed=6), cache)
    cache.evict(0, 2, 9)
    cache.restore(snapshot)
    again = model(some(5, seed=6), cache)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.hidden, again.hidden)


def test_a_unit_taken_out_and_put_back_is_as_if_it_never_left() -> None:
    model, touched, untouched = thinker(), thinker().cache(64), thinker().cache(64)
    for cache in (touched, untouched):
        model(some(40), cache)
    span = touched.copy_out(0, 13, 26)
    touched.evict(0, 13, 13)
    touched.copy_in(0, 13, span)
    check_near(touched.k, untouched.k)
    assert torch.equal(touched.v, untouched.v)
    after = [model(some(5, seed=6), cache).logits for cache in (touched, untouched)]
    torch.testing.assert_close(*after, atol=TOLERANCE, rtol=0)


def test_a_full_cache_is_said_before_anything_changes() -> None:
    model, cache = thinker(), thinker().cache(10)
    model(some(8), cache)
    before = cache.snapshot()
    with pytest.raises(Full):
        model(some(3), cache)
    after = cache.snapshot()
    assert all(torch.equal(before[name], after[name]) for name in before)
    model(some(2), cache)
    assert cache.room() == 0


def test_a_forward_never_waits_for_the_device() -> None:
    model, cache = thinker(), thinker().cache(64, slots=2)
    with host_copies() as seen:
        model(some(9), cache, slots=[1])
        model(some(1), cache, slots=[1])
        model(some(4, rows=2), cache, [4, 2])
        model(model.embed([1, 2])[:, None], cache, [1, 0])
    assert seen == []


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_coarse_types_decide_as_recorded(
    dtype: torch.dtype, rest: bool, record_property: Callable[[str, object], None]
) -> None:
    """Every position of the recorded prefill as a decision between the control tokens, with and without the rest."""
    arrays, model = golden.stage("llm_prefill"), thinker(dtype)
    head = thinker().lm_head
    _, steps = prefilled(model)
    recorded = torch.cat([head(torch.as_tensor(arrays[f"{name}_hidden"])) for name in "abc"]).numpy()
    ours = torch.cat([model.lm_head(steps[name].hidden[0]).float() for name in "abc"]).numpy()
    agreement = compare(recorded, ours, controls(), rest=rest)
    record_property(f"logit distance {dtype}", agreement.distance)
    record_property(f"flipped {dtype}", str(agreement.flipped))
    assert agreement.distance < COARSE[dtype] * float(np.abs(recorded).max())
    assert agreement.firm, "nothing was tested"
    assert agreement.flipped_firm == []


def controls() -> Sequence[int]:
    ids = Tokens.load(golden.model_dir(), config()).ids
    return [ids.listen, ids.speak, ids.turn_eos, ids.chunk_eos, ids.chunk_tts_eos, ids.tts_bos]
