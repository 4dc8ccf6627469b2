"""The recorded modules of the speech decoder: each part compares its own arrays of the stage, all parts all of them."""

from __future__ import annotations

import numpy as np
import torch
from realtime_venus.engines.omni.token2wav.config import FRAMES_PER_CODE, LOOKAHEAD, MEL_HOP
from realtime_venus.engines.omni.token2wav.euler import DitCache, cosine_times
from realtime_venus.engines.omni.token2wav.flow_encoder import EncoderCache, relative_sinusoids
from torch import Tensor

from . import golden, t2w
from .recording import Recording

STAGE = "t2w_modules"
CLOSE = 1e-4
MEL = 2e-4
PITCH_HZ = 0.05
WAVE = 2e-3
TIMES = (0.0, 0.3, 1.0)
"""Of the recorded embeddings of the time."""
STEP_TIMES = (0.3, 0.7)
"""Of the two recorded steps of the transformer."""

# -- the transformer ------------------------------------------------------------------------------------------------


def dit_inputs() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """State and conditions of the two recorded steps."""
    shape = golden.stage(STAGE)["dit_first"].shape
    seeds = golden.seeds()["dit_inputs"]
    x, mu, prompt, x2, mu2 = (t2w.normal(seeds[i], *shape) for i in (0, 1, 3, 4, 5))
    speaker = t2w.normal(seeds[2], *shape[:2])[:, :, None].expand(shape)
    return (x, torch.cat([mu, speaker, prompt], 1)), (x2, torch.cat([mu2, speaker, torch.zeros_like(prompt)], 1))


def dit_cache(capacity: int | None = None) -> DitCache:
    """Room for both steps."""
    frames = 2 * golden.stage(STAGE)["dit_first"].shape[2]
    return DitCache(1, t2w.recorded_decoder().flow.decoder.estimator.config, capacity or frames, torch.device("cpu"))


def dit_step(x: Tensor, conditions: Tensor, at: DitCache, time: float = STEP_TIMES[0]) -> Tensor:
    """One step behind what the cache holds."""
    net = t2w.recorded_decoder().flow.decoder.estimator
    slots, valid = at.admit(x.shape[2])
    velocity: Tensor = net(x, conditions, net.modulations(torch.tensor([time]))[0], at.step(0, slots, valid))
    return velocity


def _dit_keys(at: DitCache) -> Tensor:
    """The cached keys and values, ``[depth, 2, heads, T, 2 * head_dim]``, in the published order."""
    return torch.cat([at.k[0][:, :, :, at.order], at.v[0][:, :, :, at.order]], dim=4)


def dit_times(recording: Recording) -> None:
    """The embedding of the time."""
    embedder = t2w.recorded_decoder().flow.decoder.estimator.t_embedder
    recording.close("dit_t_embed", embedder(torch.tensor(TIMES)), CLOSE)


def dit_steps(recording: Recording) -> None:
    """Two steps of the transformer, the second with the first one's frames cached."""
    recording.equal("dit_seeds", golden.seeds()["dit_inputs"])
    at = dit_cache()
    first, second = dit_inputs()
    recording.close("dit_first", dit_step(*first, at), CLOSE)
    recording.equal("dit_first_att_shape", _dit_keys(at).shape)
    recording.close("dit_first_att", _dit_keys(at), CLOSE)
    recording.close("dit_first_cnn", at.conv[0], CLOSE)

    recording.close("dit_second", dit_step(*second, at, STEP_TIMES[1]), CLOSE)
    head, tail = (recording.peek(f"dit_second_att_{name}").shape[3] for name in ("head", "tail"))
    recording.close("dit_second_att_head", _dit_keys(at)[..., :head, :], CLOSE)
    recording.close("dit_second_att_tail", _dit_keys(at)[..., -tail:, :], CLOSE)
    recording.close("dit_second_cnn", at.conv[0], CLOSE)


def euler_times(recording: Recording) -> None:
    """The times of the steps, for each recorded number of them."""
    for name in recording.names("t_span_n"):
        steps = len(recording.peek(name)) - 1
        assert name == f"t_span_n{steps}"
        recording.close(name, cosine_times(steps), 1e-6)


# -- the encoder ----------------------------------------------------------------------------------------------------


def encoder_chunks() -> list[Tensor]:
    """The recorded inputs: two windows and a rest."""
    arrays, width = golden.stage(STAGE), t2w.recorded_decoder().flow.config.input_size
    ahead = {"first": LOOKAHEAD, "second": LOOKAHEAD, "last": 0}
    codes = [arrays[f"enc_{name}"].shape[1] // FRAMES_PER_CODE + more for name, more in ahead.items()]
    return [t2w.normal(seed, 1, n, width) for seed, n in zip(golden.seeds()["conformer_inputs"], codes, strict=True)]


def encoder_cache(capacity: int = 200) -> EncoderCache:
    """An empty one."""
    return EncoderCache(t2w.recorded_decoder().flow.config.encoder, capacity, torch.device("cpu"))


def packed(cache: EncoderCache) -> Tensor:
    """Both stages as the reference code packs them: ``[layers, 1, heads, T, 2 * head_dim]``, the first one twice."""
    first, second = (
        torch.cat([stage.k[:, :, : stage.length], stage.v[:, :, : stage.length]], dim=3)
        for stage in (cache.first, cache.second)
    )
    return torch.cat([first.repeat(1, 1, 2, 1), second])[:, None]


def encoder(recording: Recording) -> None:
    """Three chunks, with the caches they leave behind."""
    net, cache = t2w.recorded_decoder().flow.encoder, encoder_cache()
    for name, x, last in zip(("first", "second", "last"), encoder_chunks(), (False, False, True), strict=True):
        recording.close(f"enc_{name}", net(x, cache, last=last), CLOSE)
        if not last:
            recording.close(f"enc_{name}_att", packed(cache), CLOSE)
            recording.close(f"enc_{name}_cnn", torch.cat([cache.lookahead, cache.upsample], dim=2), CLOSE)


def distances(recording: Recording) -> None:
    """The table of relative positions."""
    for name in recording.names("rel_pos_table_T"):
        rows, width = recording.peek(name).shape
        # recorded from the farthest past to the farthest future
        recording.close(name, relative_sinusoids((rows + 1) // 2, width).flip(0), 1e-6)


# -- the vocoder, and everything ------------------------------------------------------------------------------------


def vocoder_mel() -> Tensor:
    """The recorded input, ``[1, channels, frames]``."""
    return t2w.tensor(golden.stage(STAGE)["hift_mel"])[None]


def vocoder_noise() -> Tensor:
    """What the vocoder was given with it."""
    return t2w.RecordedNoise().vocoder(vocoder_mel().shape[2] * MEL_HOP, 0)


def vocoder_inputs(recording: Recording) -> None:
    """Mel and noise are rebuilt from their seeds."""
    made = golden.seeds()["hift_mel"]
    drawn = golden.normal(made["seed"], *recording.peek("hift_mel").shape)
    recording.close("hift_mel", made["offset"] + made["scale"] * drawn, 1e-6)
    # the second draw, of one channel, was discarded
    seed, (rows, samples, _) = golden.seeds()["hift_noise_seed_base"], vocoder_noise().shape
    recording.equal("hift_noise_seed_shape", [[seed, *vocoder_noise().shape], [seed + 1, rows, samples, 1]])
    # which is why ours draws none
    recording.equal("hift_initial_phase_has_no_effect", [1])


def vocoder(recording: Recording) -> None:
    """Pitch, source and wave."""
    net, mel = t2w.recorded_decoder().hift, vocoder_mel()
    recording.close("hift_f0", net.f0_predictor(mel)[0], PITCH_HZ)
    recording.close("hift_source", net.source(mel, vocoder_noise())[0, 0], WAVE)
    recording.close("hift_wave", net(mel, vocoder_noise())[0], WAVE)


def whole_sequence(recording: Recording) -> None:
    """A sequence of codes at once."""
    decoder = t2w.recorded_decoder(t2w.recorded_steps())
    codes = recording.given("offline_tokens").tolist()
    recording.close("offline_mel", decoder.synthesise_mel(t2w.recorded_voice(), codes)[0], MEL)
    wave = decoder.synthesise(t2w.recorded_voice(), codes)
    assert len(wave) == FRAMES_PER_CODE * len(codes) * MEL_HOP
    full = np.iinfo(np.int16).max
    recording.close("offline_wave_int16", wave * full, full * WAVE)


PARTS = (
    dit_times,
    dit_steps,
    euler_times,
    encoder,
    distances,
    vocoder_inputs,
    vocoder,
    whole_sequence,
)
