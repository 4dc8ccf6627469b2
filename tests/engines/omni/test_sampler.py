from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.omni.sampler import SamplerSettings, SeededDraws, checked, penalised_argmax, sample
from realtime_venus.engines.omni.tokens import ProtocolIds, Tokens
from realtime_venus.engines.omni.upload import download

from tests.kit import golden
from tests.kit.decoders import config, thinker
from tests.kit.host_copies import host_copies
from tests.kit.omni_replay import recorded_sessions

Floats = npt.NDArray[np.float32]
RENAMED = {
    "text_repetition_penalty": "repetition_penalty",
    "text_repetition_window_size": "repetition_window",
    "decode_mode": "mode",
}
DUPLEX = [name for name in recorded_sessions() if "decode_logits" in golden.stage(name)]


@cache
def tokens() -> Tokens:
    return Tokens.load(golden.model_dir(), config())


def mask(forbidden: Sequence[int], size: int) -> torch.Tensor:
    banned = torch.zeros(size, dtype=torch.bool)
    banned[list(forbidden)] = True
    return banned


def chosen_settings(given_settings: dict[str, Any]) -> SamplerSettings:
    """Of a record, whose names are the published decoder's; what concerns no sampling is left out."""
    renamed = {RENAMED.get(name, name): value for name, value in given_settings.items()}
    return SamplerSettings(**{name: value for name, value in renamed.items() if name in SamplerSettings.model_fields})


def padded(draws: Sequence[float]) -> tuple[float, float]:
    """Where a draw was not needed, one that would change the outcome of nearly every case if it were used."""
    first, second, *rest = [*draws, 0.999, 0.999]
    assert rest in ([], [0.999], [0.999, 0.999])
    return first, second


def case_ids() -> list[int]:
    return [case["case"] for case in golden.record("sampler_cases")["cases"]]


def test_defaults_are_the_recorded_ones() -> None:
    recorded = golden.record("sampler_cases")["defaults"]
    assert chosen_settings(recorded) == SamplerSettings()
    assert {RENAMED.get(name, name) for name in recorded} <= SamplerSettings.model_fields.keys()


@pytest.mark.parametrize("number", case_ids())
def test_recorded_cases(number: int) -> None:
    record, ids = golden.record("sampler_cases"), tokens().ids
    assert (record["chunk_eos"], record["turn_eos"]) == (ids.chunk_eos, ids.turn_eos)
    assert (record["listen_token"], record["id_used_by_listen_controls"]) == (ids.listen, ids.im_end)
    (case,) = [case for case in record["cases"] if case["case"] == number]
    logits = torch.as_tensor(golden.stage("sampler_cases")[f"logits_{number:02d}"])
    before = logits.clone()
    draws = padded([draw["u"] for draw in case["draws"]])
    banned = mask(tokens().forbidden, len(logits))
    token, recorded = download(sample(logits, case["history"], chosen_settings(case["settings"]), ids, banned, draws))
    assert token == case["out"]
    assert case["history"] + [token] * recorded == case["history_after"]
    assert torch.equal(logits, before)


@pytest.mark.parametrize("name", DUPLEX)
def test_recorded_sessions(name: str) -> None:
    """Every token of the recorded sessions, from the recorded logits, steering and draws."""
    record, arrays, ids = golden.record(name), golden.stage(name), tokens().ids
    history: list[int] = []
    for number, call in enumerate(record["decode_calls"]):
        logits = torch.as_tensor(arrays["decode_logits"][number].copy())
        for added, where in call["bias"].items():
            logits[where] += float(added)
        draws = padded(arrays["draw_u_f64"][arrays["draw_call"] == number].tolist())
        chosen = chosen_settings(record["units"][call["unit"]]["generate_args"])
        banned = mask(record["forbidden_ids"], len(logits))
        token, recorded = download(sample(logits, history, chosen, ids, banned, draws))
        assert token == call["out"], number
        history += [token] * recorded
    assert history == record["generated_tokens_history"]


# -- an independent implementation ------------------------------------------------------------------------------------


def softmax(scores: dict[int, float]) -> dict[int, float]:
    largest = max(scores.values())
    powers = {token: float(np.exp(np.float64(score - largest))) for token, score in scores.items()}
    total = sum(powers.values())
    return {token: power / total for token, power in powers.items()}


def pick(probabilities: dict[int, float], u: float) -> int:
    """By inverse CDF in id order.  Discards an example whose draw is so near an edge that rounding decides."""
    total = 0.0
    found: int | None = None
    for token in sorted(probabilities):
        total += probabilities[token]
        assume(abs(total - u) > 1e-5 or total > 1 - 1e-9)
        if found is None and total > u:
            found = token
    return max(probabilities) if found is None else found


def slow_sample(
    logits: Floats, history: list[int], chosen: SamplerSettings, ids: ProtocolIds, forbidden: Sequence[int], draws: Any
) -> tuple[int, int]:
    """The same from the description, token by token in plain floats."""
    scores = {token: float(score) for token, score in enumerate(logits)}

    def best() -> int:
        return max(scores, key=lambda token: (scores[token], -token))

    greedy = chosen.mode == "greedy"
    if (best() if greedy else pick(softmax(scores), draws[0])) == ids.chunk_eos:
        return ids.chunk_eos, 0
    for token in forbidden:
        scores.pop(token, None)
    seen = set(history[-chosen.repetition_window :]) if chosen.repetition_window else set[int]()
    for token in seen & scores.keys():
        boosted = chosen.signed_repetition and scores[token] < 0
        scores[token] *= chosen.repetition_penalty if boosted else 1 / chosen.repetition_penalty
    turn = ids.turn_eos
    scores[turn] *= 1 / chosen.length_penalty if scores[turn] > 0 else chosen.length_penalty
    listen = ids.im_end if chosen.listen_control == "im_end" else ids.listen
    scores[listen] *= chosen.listen_prob_scale
    if chosen.listen_top_k is not None:
        above = [score for score in scores.values() if score > scores[listen]]
        assume(all(abs(score - scores[listen]) > 1e-5 for token, score in scores.items() if token != listen))
        if len(above) < chosen.listen_top_k:
            return listen, 0
    if greedy:
        first, second = sorted(scores.values(), reverse=True)[:2]
        assume(first - second > 1e-5)
        return best(), 1
    scores = {token: score / chosen.temperature for token, score in scores.items()}
    if chosen.top_k:
        ranked = sorted(scores.values(), reverse=True)
        least = ranked[min(chosen.top_k, len(ranked)) - 1]
        assume(all(score == least or abs(score - least) > 1e-5 for score in ranked))
        scores = {token: score for token, score in scores.items() if score >= least}
    if chosen.top_p:
        total, kept = 0.0, dict[int, float]()
        for token, probability in sorted(softmax(scores).items(), key=lambda item: (-item[1], item[0])):
            assume(abs(total - chosen.top_p) > 1e-5)
            if not kept or total <= chosen.top_p:
                kept[token] = scores[token]
            total += probability
        scores = kept
    return pick(softmax(scores), draws[1]), 1


unit = st.floats(0, 1, exclude_max=True)
some_settings = st.builds(
    SamplerSettings,
    mode=st.sampled_from(["sampling", "sampling", "greedy"]),
    temperature=st.floats(0.2, 2),
    top_k=st.integers(0, 60),
    top_p=st.sampled_from([0.0, 0.3, 0.8, 0.95]),
    repetition_penalty=st.sampled_from([1.0, 1.05, 1.5, 0.8]),
    repetition_window=st.sampled_from([0, 3, 512]),
    length_penalty=st.sampled_from([0.5, 0.8, 1.0, 1.1, 3.0]),
    listen_prob_scale=st.sampled_from([1.0, 0.5, 2.0]),
    listen_top_k=st.sampled_from([None, None, 1, 5, 40]),
    listen_control=st.sampled_from(["im_end", "listen"]),
    signed_repetition=st.booleans(),
)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**31 - 1), some_settings, st.tuples(unit, unit), st.booleans(), st.integers(0, 20))
def test_equals_an_independent_implementation(
    seed: int, chosen: SamplerSettings, draws: tuple[float, float], ending: bool, length: int
) -> None:
    known, size = tokens(), config().vocab_size
    random = np.random.default_rng(seed)
    logits = (3 * random.standard_normal(size)).astype(np.float32)
    favoured = [known.ids.chunk_eos] if ending else [known.ids.turn_eos, known.ids.im_end, known.ids.listen]
    logits[favoured] += np.float32(6)
    likely = np.argsort(logits)[-40:]
    history = [int(token) for token in random.choice(likely, length)]
    expected = slow_sample(logits, history, chosen, known.ids, known.forbidden, draws)
    got = sample(torch.as_tensor(logits), history, chosen, known.ids, mask(known.forbidden, size), draws)
    assert tuple(download(got)) == expected


# -- what the settings mean -------------------------------------------------------------------------------------------


def greedy_choice(values: dict[int, float], history: Sequence[int] = (), **changes: Any) -> int:
    """The token where only those of ``values`` are likely."""
    size = config().vocab_size
    logits = torch.full((size,), -50.0)
    for token, value in values.items():
        logits[token] = value
    chosen = SamplerSettings(mode="greedy", length_penalty=1.0, **changes)
    return int(sample(logits, history, chosen, tokens().ids, mask(tokens().forbidden, size), (0.0, 0.0))[0])


def plain_ids() -> tuple[int, int]:
    """Two ids that mean nothing to the protocol."""
    taken = {*tokens().forbidden}
    first, second, *_ = [token for token in range(100) if token not in taken]
    return first, second


def test_negative_logits_of_the_history_grow_unless_mended() -> None:
    seen, other = plain_ids()
    values = {seen: -1.02, other: -1.0}
    assert greedy_choice(values, [seen]) == seen
    assert greedy_choice(values, [seen], signed_repetition=True) == other


@pytest.mark.parametrize("mode", ["sampling", "greedy"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_an_error(mode: Literal["sampling", "greedy"], wrong: float) -> None:
    logits = torch.zeros(config().vocab_size)
    logits[plain_ids()[0]] = wrong
    settings_of = SamplerSettings(mode=mode)
    token, _ = download(sample(logits, [], settings_of, tokens().ids, mask([], len(logits)), (0.5, 0.5)))
    for found in (token, int(penalised_argmax(logits, [], 1.05))):
        with pytest.raises(EngineError, match="not finite in float16: use another VENUS_OMNI__DTYPE"):
            checked(found, torch.float16)
    assert checked(7, torch.float16) == 7


def test_the_window_of_the_history() -> None:
    seen, other = plain_ids()
    values = {seen: 1.02, other: 1.0}
    history = [seen, other, other]
    assert greedy_choice(values, history, repetition_window=2) == seen
    assert greedy_choice(values, [seen], repetition_window=2) == other
    assert greedy_choice(values, [seen], repetition_window=0) == seen


def test_listen_controls_act_on_the_token_named() -> None:
    ids, (word, _) = tokens().ids, plain_ids()
    values = {ids.im_end: 1.0, ids.listen: 1.0, word: 2.0}
    assert greedy_choice(values, listen_prob_scale=3.0) == ids.im_end
    assert greedy_choice(values, listen_prob_scale=3.0, listen_control="listen") == ids.listen
    assert greedy_choice(values, listen_top_k=2, listen_control="listen") == ids.listen
    assert greedy_choice(values, listen_top_k=1, listen_control="listen") == word


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0}, {"top_k": -1}, {"length_penalty": 0}, {"mode": "beam"}, {"k": 1}]
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SamplerSettings(**wrong)


def test_answers_penalise_all_that_was_said() -> None:
    logits = torch.tensor([1.0, 1.04, -0.5, -0.51])
    assert int(penalised_argmax(logits, [], 1.05)) == 1
    assert int(penalised_argmax(logits, [1], 1.05)) == 0
    assert int(penalised_argmax(logits[2:], [0], 1.05)) == 1
    assert logits[1] == torch.tensor(1.04)


# -- draws and waits --------------------------------------------------------------------------------------------------


def test_seeded_draws_can_be_repeated_and_are_independent() -> None:
    draws, other = SeededDraws(3), SeededDraws(3)
    for _ in range(5):
        other.code()
    assert draws.text() == other.text()
    snapshot = draws.snapshot()
    after = [draws.text(), draws.code(), draws.text()]
    draws.restore(snapshot)
    assert [draws.text(), draws.code(), draws.text()] == after
    other.restore(snapshot)
    assert [other.text(), other.code(), other.text()] == after
    assert SeededDraws(4).text() != SeededDraws(3).text()
    assert all(0 <= number < 1 for number in [*draws.text(), draws.code()])


def test_one_copy_to_the_host_for_each_token() -> None:
    model, known, size = thinker(), tokens(), config().vocab_size
    banned, draws = mask(known.forbidden, size), SeededDraws(1)
    history: list[int] = []
    with torch.inference_mode():
        kv = model.cache(64)
        step = model(model.embed([1, 2, 3])[None], kv)
        with host_copies() as seen:
            for chosen in (SamplerSettings(), SamplerSettings(listen_top_k=2, top_k=0), SamplerSettings(mode="greedy")):
                for _ in range(4):
                    pair = sample(step.logits[0], history, chosen, known.ids, banned, draws.text())
                    token, recorded = download(pair)
                    history += [token] * recorded
                    step = model(model.embed([token])[None], kv)
    assert seen == ["tolist"] * 12
