"""Streams of speech are the recorded ones, window by window, down to the caches they leave behind."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.token2wav.config import LOOKAHEAD
from realtime_venus.engines.omni.token2wav.noise import HARMONICS
from realtime_venus.engines.omni.token2wav.state import T2WState
from realtime_venus.engines.omni.token2wav.vocoder import OVERLAP
from torch import Tensor

from ....kit import golden, t2w, t2w_modules
from ....kit.golden import Arrays
from ....kit.recording import Recording

PUBLISHED_SLOTS = 16
"""The recorded caches have this many, however many steps are used."""
BEFORE_EDGE = 140
"""Where the recorded stretch of the source around the end of the overlap begins."""
CLOSE = 1e-4
MEL = 2e-4
PITCH = 0.05
WAVE = 2e-3


def packed(state: T2WState, before: int) -> Tensor:
    """The encoder's cache as published: ``[layers, 1, heads, T, 2 * head_dim]``.

    The first stage is written twice in a row and then cut; ``before`` is its length before the cut.
    """
    first, second = state.encoder.first, state.encoder.second
    prompt, kept = state.base.frames, second.length
    once = torch.cat([first.k[:, :, :before], first.v[:, :, :before]], dim=3)
    twice = once.repeat(1, 1, 2, 1)
    if kept < 2 * before:
        twice = torch.cat([twice[:, :, :prompt], twice[:, :, prompt - kept :]], dim=2)
    rest = torch.cat([second.k[:, :, :kept], second.v[:, :, :kept]], dim=3)
    return torch.cat([twice, rest])[:, None]


def ordered(state: T2WState) -> Tensor:
    """The flow's keys and values, ``[steps, depth, 2, heads, T, 2 * head_dim]``, in the published order."""
    slots = torch.tensor(state.flow.order)
    return torch.cat([state.flow.k.index_select(4, slots), state.flow.v.index_select(4, slots)], dim=5)


def check_columns(whole: Tensor, recorded: Tensor) -> None:
    """Every recorded column is one of the cache ``[..., T, dim]``; the first and the last are its first and last."""
    apart = (whole[..., None, :, :] - recorded[..., :, None, :]).abs().amax(dim=-1)
    by_column = apart.flatten(0, -3).amax(dim=0)
    assert float(by_column.amin(dim=1).max()) < CLOSE
    assert float(by_column[0, 0]) < CLOSE
    assert float(by_column[-1, -1]) < CLOSE


def check_caches(state: T2WState, before: int, arrays: Arrays, prefix: str) -> set[str]:
    """Compare every recorded part of the caches; returns the names of what was compared."""
    parts = {
        "conformer_att_cache": packed(state, before),
        "conformer_cnn_cache": torch.cat([state.encoder.lookahead, state.encoder.upsample], dim=2),
        "estimator_att_cache": ordered(state),
        "estimator_cnn_cache": state.flow.conv,
    }
    compared: set[str] = set()
    for part, whole in parts.items():
        slots = PUBLISHED_SLOTS if part.startswith("estimator") else whole.shape[0]
        assert [slots, *whole.shape[1:]] == arrays[f"{prefix}{part}_shape"].tolist()
        sums = [float(whole.double().sum()), float(whole.double().abs().sum())]
        recorded = arrays[f"{prefix}{part}_sum_f64"]
        # far closer than the tolerance of one value, which would let anything through in a sum of many
        t2w.close(sums, recorded, 2e-6 * recorded[1], prefix + part)
        compared |= {f"{prefix}{part}_shape", f"{prefix}{part}_sum_f64"}
    encoder, flow = parts["conformer_att_cache"], parts["estimator_att_cache"]
    for name in [name for name in arrays if name.startswith(prefix) and name.endswith("_cols")]:
        parsed = re.fullmatch(r"(?:conformer|est)_att_(?:s(\d+)_)?l(\d+)_cols", name.removeprefix(prefix))
        assert parsed is not None
        step, layer = parsed.groups()
        whole = encoder[int(layer), 0] if step is None else flow[int(step), int(layer)]
        check_columns(whole, t2w.tensor(arrays[name]))
        compared.add(name)
    t2w.close(parts["conformer_cnn_cache"], arrays[f"{prefix}conformer_cnn"], CLOSE)
    return compared | {f"{prefix}conformer_cnn"}


def check_tails(state: T2WState, arrays: Arrays, prefix: str) -> set[str]:
    """Compare the convolution tails of the first and the last Euler step; returns their names."""
    tails = {f"{prefix}est_cnn_s0": state.flow.conv[0], f"{prefix}est_cnn_last": state.flow.conv[-1]}
    for name, given in tails.items():
        t2w.close(given, arrays[name], CLOSE, name)
    return set(tails)


def test_a_voice_is_learnt_as_recorded() -> None:
    arrays, decoder = golden.stage("t2w_prompt"), t2w.recorded_decoder(t2w.recorded_steps())
    net = decoder.flow
    with t2w.Watch(speaker=net.spk_embed_affine_layer, mu=net.encoder_proj) as watch:
        state = decoder.base(t2w.recorded_voice())
    t2w.close(watch["speaker"], arrays["spk_affine"], CLOSE)
    t2w.close(watch["mu"][0], arrays["setup_mu"], CLOSE)
    head = arrays["flow_noise_head"]
    assert np.array_equal(t2w.RecordedNoise().flow()[0, :, : head.shape[1]], head)
    compared = check_caches(state, state.encoder.first.length, arrays, "setup_")
    compared |= check_tails(state, arrays, "setup_")
    assert compared | {"setup_mu"} == {name for name in arrays if name.startswith("setup_")}


def check_sound(watch: t2w.Watch, raw: Tensor, wave: Tensor, arrays: Arrays, prefix: str) -> set[str]:
    """Compare everything recorded of a vocoder call; returns the names of what was compared."""
    source, recorded_mel = watch.given["stft"][0, 0], arrays[f"{prefix}mel"]
    head, edge = len(arrays[f"{prefix}src_head"]), len(arrays[f"{prefix}src_at_cache_edge"])
    first, last = len(arrays[f"{prefix}raw_head"]), len(arrays[f"{prefix}raw_tail"])
    compared = {
        "mel": (watch.given["trunk"][0, :, -recorded_mel.shape[1] :], MEL),
        "f0": (watch["f0"][0], PITCH),
        "src_head": (source[:head], WAVE),
        "src_at_cache_edge": (source[OVERLAP - BEFORE_EDGE :][:edge], WAVE),
        "raw_head": (raw[:first], WAVE),
        "raw_tail": (raw[-last:], WAVE),
    }
    if f"{prefix}wave" in arrays:
        compared["wave"] = (wave, WAVE)
    else:
        compared["wave_every7"] = (wave[::7], WAVE)
    for name, (given, tolerance) in compared.items():
        t2w.close(given, arrays[prefix + name], tolerance, prefix + name)
    total = arrays[f"{prefix}wave_sum_f64"]
    given = [float(wave.double().sum()), float(wave.double().abs().sum())]
    t2w.close(given, total, 1e-4 * total[1])
    return {prefix + name for name in compared} | {f"{prefix}wave_sum_f64"}


@pytest.mark.parametrize("name", golden.stages("t2w_stream_"))
def test_a_stream_as_recorded(name: str) -> None:
    arrays, decoder = golden.stage(name), t2w.recorded_decoder(int(name.rpartition("_n")[2]))
    net, state = decoder.hift, t2w.session(decoder.steps)
    compared = {"call_columns", "calls", "hift_noise_seed_shape"}
    for call, values in enumerate(arrays["calls"].tolist()):
        row, prefix = dict(zip(arrays["call_columns"].tolist(), values, strict=True)), f"c{call}_"
        codes, last = arrays[f"{prefix}tokens"].tolist(), bool(row["last"])
        known = state.encoder.first.length
        assert (len(codes), state.flow.length) == (row["n_tokens"], row["noise_offset"])
        with t2w.Watch(mu=decoder.flow.encoder_proj, f0=net.f0_predictor, trunk=net.conv_pre, stft=net.stft) as watch:
            wave = decoder.stream(state, codes, last=last)
        raw = net.render(watch.given["trunk"], watch.given["stft"])[0]

        t2w.close(watch["mu"][0], arrays[f"{prefix}mu"], CLOSE)
        assert watch["mu"].shape[1] == row["mel_frames"]
        assert state.flow.length == row["estimator_cache_T_after"]
        assert state.encoder.second.length == row["conformer_cache_T_after"]
        assert (len(raw), len(wave)) == (row["raw_samples"], row["wave_samples"])
        held = (state.vocoder.mel, state.vocoder.source, state.vocoder.speech)
        assert [part.shape[-1] for part in held] == [
            row["hift_mel_cache"],
            row["hift_src_cache"],
            row["hift_speech_cache"],
        ]
        seed = golden.seeds()["hift_noise_seed_base"] + 2 * call
        assert arrays["hift_noise_seed_shape"][2 * call].tolist() == [seed, 1, len(raw), HARMONICS]
        compared |= {f"{prefix}tokens", f"{prefix}mu"} | check_sound(watch, raw, wave, arrays, prefix)
        if f"{prefix}conformer_cnn" in arrays:
            compared |= check_caches(state, known + len(codes) - (0 if last else LOOKAHEAD), arrays, prefix)
    # these were recorded as views of a buffer that later calls wrote to: all of them show the end of the stream, while
    # the sums, compared above, are of their own call
    for name in [name for name in arrays if name.endswith("_est_cnn_s0")]:
        compared |= check_tails(state, arrays, name.removesuffix("est_cnn_s0"))
    assert compared == set(arrays)


def test_a_whole_sequence_as_recorded() -> None:
    t2w_modules.whole_sequence(Recording(t2w_modules.STAGE))


def test_every_array_of_the_modules_is_compared() -> None:
    recording = Recording(t2w_modules.STAGE)
    for part in t2w_modules.PARTS:
        part(recording)
    assert not recording.unused
