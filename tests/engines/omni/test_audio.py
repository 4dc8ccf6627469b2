"""The audio encoder against its recorded states, and its stream against whole recordings."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.base import INPUT_HZ, EngineError
from realtime_venus.engines.omni.audio import UNIT_STATES, AudioCache, AudioEncoder
from realtime_venus.engines.omni.mel import Mel, MelFront, as_tensor, offline_mel, stack
from torch import Tensor, nn

from tests.kit import golden
from tests.kit.omni_ears import config, encoder, noise, projector, small_modules

TOLERANCE = 1e-4


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with torch.inference_mode():
        yield


def run(module: AudioEncoder, mels: list[Mel], cache: AudioCache, slots: list[int]) -> Tensor:
    frames, present = (as_tensor(array) for array in stack(mels))
    states: Tensor = module(frames, present, cache, cache.claim(slots, UNIT_STATES))
    return states


def second(number: int) -> np.ndarray:
    return golden.microphone()[number * INPUT_HZ : (number + 1) * INPUT_HZ]


def test_the_stream_is_encoded_as_published() -> None:
    recorded = golden.stage("audio_encoder_stream")
    module = encoder()
    front, cache = MelFront(module.config.num_mel_bins), module.cache()
    for unit, (before, after) in enumerate(zip(recorded["past_before"], recorded["past_after"], strict=True)):
        mel = front.push(second(unit))
        assert mel is not None
        assert cache.length(0) == before
        if cache.full(0, UNIT_STATES):
            cache.wipe(0)
        states = run(module, [mel], cache, [0])
        assert cache.length(0) == after
        if unit in recorded["sel_hidden"]:
            np.testing.assert_allclose(states.numpy(), recorded[f"hidden_{unit:02d}"], atol=TOLERANCE)
        for name, values in recorded.items():
            if found := re.fullmatch(rf"kv_u{unit}_l(\d+)_([kv])", name):
                kept = cache.snapshot(0)[found[2]][int(found[1]), :, -values.shape[2] :]
                np.testing.assert_allclose(kept.numpy(), values[0], atol=TOLERANCE, err_msg=name)


@contextmanager
def seen(modules: dict[str, nn.Module]) -> Generator[dict[str, np.ndarray]]:
    """Outputs of those modules, by the names given here, without the batch."""
    outputs: dict[str, np.ndarray] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            outputs[name] = output[0].numpy().copy()

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def test_every_step_of_the_encoder_is_as_recorded() -> None:
    recorded = golden.stage("debug_layers")
    module = encoder()
    watched: dict[str, nn.Module] = {
        "conv1": module.conv1,
        "conv2": module.conv2,
        "final_norm": module.layer_norm,
    }
    for index, layer in enumerate(module.layers):
        watched[f"l{index}_out"] = layer
        watched[f"l{index}_attn_out"] = layer.get_submodule("self_attn")
    front, cache = MelFront(module.config.num_mel_bins), module.cache()
    for call, number in enumerate(recorded["apm_seconds_used"].tolist()):
        mel = front.push(second(number))
        assert mel is not None
        with seen(watched) as outputs:
            states = run(module, [mel], cache, [0])
        names = {name[4 : -len(f"_call{call}")] for name in recorded if re.fullmatch(rf"apm_.+_call{call}", name)}
        assert names == {*watched, "projector"}
        for name in watched:
            expected = recorded[f"apm_{name}_call{call}"]
            # A first unit is fed with two absent frames in front, of which one state comes.
            absent = {"conv1": 2, "conv2": 1}.get(name, 0) if call == 0 else 0
            output = outputs[name]
            ours = output[:, absent:] if name.startswith("conv") else output
            np.testing.assert_allclose(ours, expected, atol=TOLERANCE, err_msg=name)
        # The recorded projection is not pooled yet.
        pooled = recorded[f"apm_projector_call{call}"].reshape(-1, config().audio_pool_step, config().hidden_size)
        np.testing.assert_allclose(projector()(states)[0].numpy(), pooled.mean(axis=1), atol=TOLERANCE)


def test_a_recording_is_encoded_as_published() -> None:
    voice = golden.wave(golden.voice())
    module = encoder()
    mel = as_tensor(offline_mel(voice, module.config.num_mel_bins))[None]
    block = int(config().audio_chunk_length * UNIT_STATES)
    expected = golden.stage("audio_offline")["ref_hidden"]
    np.testing.assert_allclose(module.offline(mel, block).numpy(), expected, atol=TOLERANCE)


def units(mel: np.ndarray) -> list[Mel]:
    """A recording's features as the units of a stream; nothing follows the last one."""
    padded = np.pad(mel, ((0, 0), (2, 2)))
    return [
        Mel(np.ascontiguousarray(padded[:, start : start + 104]), start == 0) for start in range(0, mel.shape[1], 100)
    ]


def test_a_stream_of_29_s_is_a_recording_with_blocks_of_a_second() -> None:
    module, _ = small_modules(1500)
    mel = offline_mel(noise(29, 1))
    whole = module.offline(as_tensor(mel)[None])
    cache = module.cache()
    streamed = torch.cat([run(module, [unit], cache, [0]) for unit in units(mel)], dim=1)
    # The very last state sees the end: nothing, or the first convolution's idea of it.
    np.testing.assert_allclose(streamed[:, :-1].numpy(), whole[:, :-1].numpy(), atol=1e-5)


def test_absent_frames_are_what_padding_is() -> None:
    module, _ = small_modules()
    mel = offline_mel(noise(1.02, 2))
    with seen({"conv2": module.conv2}) as outputs:
        run(module, [Mel(np.pad(mel, ((0, 0), (2, 0))), first=True)], module.cache(), [0])
        masked = outputs["conv2"]
        module.offline(as_tensor(mel)[None])
        exact = outputs["conv2"]
    np.testing.assert_allclose(masked[:, 1:], exact, atol=1e-6)


def test_a_state_sees_its_own_second_and_those_before() -> None:
    module, _ = small_modules()
    mel = offline_mel(noise(3, 4))
    changed = mel.copy()
    changed[:, 250:] += 1
    before, after = (module.offline(as_tensor(each)[None])[0].numpy() for each in (mel, changed))
    np.testing.assert_allclose(after[:100], before[:100], atol=1e-6)
    assert (np.abs(after[100:] - before[100:]).max(axis=1) > 1e-4).all()


def test_padding_that_is_not_visible_changes_nothing() -> None:
    module, _ = small_modules()
    mel = as_tensor(offline_mel(noise(1.6, 4)))[None]
    padded = nn.functional.pad(mel, (0, 100))
    expected = module.offline(mel)
    hidden = module.offline(padded, visible=[80])[:, :80]
    # Not the very last one, whose convolution reaches into the padding.
    np.testing.assert_allclose(hidden[:, :79].numpy(), expected[:, :79].numpy(), atol=2e-2)
    np.testing.assert_allclose(hidden[:, :50].numpy(), expected[:, :50].numpy(), atol=1e-5)
    shown = module.offline(padded)[:, :80]
    assert (hidden - shown)[:, 50:].abs().max() > 10 * (hidden - expected)[:, 50:79].abs().max()


def test_rows_of_a_batch_may_have_heard_for_different_times() -> None:
    module, _ = small_modules()
    mels = [units(offline_mel(noise(3, seed))) for seed in range(3)]
    alone: list[Tensor] = []
    for count, row in enumerate(mels, 1):
        cache = module.cache()
        alone.append([run(module, [unit], cache, [0]) for unit in row[:count]][-1])
    for slots in ([0, 1, 2], [2, 0, 3]):
        cache = module.cache(4)
        for count, (slot, row) in enumerate(zip(slots, mels, strict=True), 1):
            for unit in row[: count - 1]:
                run(module, [unit], cache, [slot])
        together = run(module, [row[count] for count, row in enumerate(mels)], cache, slots)
        np.testing.assert_allclose(together.numpy(), torch.cat(alone).numpy(), atol=1e-5)
        assert [cache.length(slot) for slot in slots] == [50, 100, 150]


def test_a_slot_is_full_before_it_would_hold_its_last_state() -> None:
    module, _ = small_modules()
    cache = module.cache()
    assert cache.capacity == 200
    filled: list[bool] = []
    for unit in units(offline_mel(noise(4, 7))):
        filled.append(cache.full(0, UNIT_STATES))
        run(module, [unit], cache, [0])
    assert filled == [False, False, False, True]
    with pytest.raises(EngineError, match="wipe it"):
        cache.claim([0], 1)
    cache.wipe(0)
    assert cache.length(0) == 0


def test_a_wiped_slot_holds_nothing_of_what_was_heard() -> None:
    module, _ = small_modules()
    cache = module.cache(3)
    heard = units(offline_mel(noise(3, 9)))
    for unit in heard:
        run(module, [unit] * 3, cache, [0, 1, 2])
    others = [cache.snapshot(slot)["k"] for slot in (0, 2)]
    short = module.cache()
    run(module, heard[:1], short, [0])
    cache.restore(1, short.snapshot(0))  # shorter than what was there
    cache.wipe(1)
    assert not cache.k[:, 1].any()
    assert not cache.v[:, 1].any()
    assert all(torch.equal(cache.snapshot(slot)["k"], kept) for slot, kept in zip((0, 2), others, strict=True))


def test_a_slot_can_be_taken_out_and_put_into_another() -> None:
    module, _ = small_modules()
    first, second_unit = units(offline_mel(noise(2, 8)))
    cache = module.cache(2)
    run(module, [first], cache, [0])
    snapshot = cache.snapshot(0)
    expected = run(module, [second_unit], cache, [0])
    cache.restore(1, snapshot)
    assert cache.length(1) == 50
    np.testing.assert_array_equal(run(module, [second_unit], cache, [1]).numpy(), expected.numpy())


def test_a_recording_of_more_than_all_positions_is_refused() -> None:
    module, _ = small_modules()
    with pytest.raises(EngineError, match="400 frames"):
        module.offline(torch.zeros(1, 80, 401))
