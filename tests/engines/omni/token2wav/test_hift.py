"""The vocoder is the recorded one: pitch, source, every stage of the trunk, and the wave."""

from __future__ import annotations

import pytest
import torch
from realtime_venus.engines.omni.checkpoint import CheckpointError
from realtime_venus.engines.omni.token2wav.config import MEL_HOP, HiftConfig
from realtime_venus.engines.omni.token2wav.hift import Hift

from ....kit import golden, t2w, t2w_modules
from ....kit.recording import Recording
from ....kit.t2w_modules import vocoder_mel

CLOSE = 1e-4


def hift() -> Hift:
    return t2w.recorded_decoder().hift


def test_its_input_is_drawn_as_recorded_and_needs_no_random_phase() -> None:
    t2w_modules.vocoder_inputs(Recording(t2w_modules.STAGE))


def test_pitch_source_and_wave_as_recorded() -> None:
    t2w_modules.vocoder(Recording(t2w_modules.STAGE))


def test_the_trunk_with_the_recorded_source() -> None:
    arrays = golden.stage("t2w_modules")
    wave = hift().render(vocoder_mel(), t2w.tensor(arrays["hift_source"])[None, None])
    t2w.close(wave[0], arrays["hift_wave"], CLOSE)


def test_every_stage_as_recorded() -> None:
    net, arrays = hift(), golden.stage("debug_layers")
    frames = arrays["hift_conv_pre"].shape[1]
    samples = frames * MEL_HOP
    stages = {
        f"hift_{name}{i}": module
        for name, group in (("up", net.ups), ("srcdown", net.source_downs), ("srcres", net.source_resblocks))
        for i, module in enumerate(group)
    }
    short = vocoder_mel()[..., :frames]
    drawn = t2w.RecordedNoise().vocoder(samples, 0)
    with t2w.Watch(hift_conv_pre=net.conv_pre, hift_conv_post=net.conv_post, **stages) as watch:
        net(short, drawn)
    watch.gave["hift_sines"] = net.m_source.harmonics(net.f0_predictor(short), drawn)
    expected = {name for name in arrays if name.startswith("hift_")}
    assert expected == set(watch.gave)
    for name in expected:
        recorded = arrays[name]
        given = watch[name][0, : recorded.shape[0]] if name == "hift_sines" else watch[name][0, :, : recorded.shape[1]]
        # what depends on the source has its phase error in it
        t2w.close(given, recorded, 1e-3, name)


@pytest.mark.parametrize("fault", ["missing", "flat", "narrow"])
def test_tensors_that_are_no_such_vocoder_are_refused(fault: str) -> None:
    weights = {"conv_pre.weight": torch.empty(32, 80, 7), "f0_predictor.condnet.0.weight": torch.empty(24, 80, 3)}
    assert HiftConfig.of(weights) == HiftConfig(mel=80, channels=32, f0_channels=24)
    if fault == "missing":
        del weights["f0_predictor.condnet.0.weight"]
    else:
        weights["conv_pre.weight"] = torch.empty(32) if fault == "flat" else torch.empty(12, 80, 7)
    with pytest.raises(CheckpointError, match=r"hift\.pt"):
        HiftConfig.of(weights)
