"""The stages of the omni network at any size, with random weights: what each does for one unit, and what it must move.

Bytes are those of the weights and caches that a call reads; operations are two for each weight and row, and the
products of attention.  Both are what the floors of benchmarks/omni.py are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from realtime_venus.engines.omni.config import OmniConfig
from realtime_venus.engines.omni.model import Network, build
from realtime_venus.engines.omni.token2wav.config import DecoderConfig, DitConfig, EncoderConfig, FlowConfig, HiftConfig
from realtime_venus.engines.omni.token2wav.flow import Flow
from realtime_venus.engines.omni.token2wav.hift import Hift
from realtime_venus.engines.omni.token2wav.stream import Token2Wav
from realtime_venus.engines.omni.vision import position_ids
from realtime_venus.engines.omni.voice import VoicePrompt
from torch import Tensor, nn

PICTURE: Final = (24, 43)
"""Patches (rows, columns) of a 1280x720 picture."""
UNIT_ROWS: Final = 79
"""Positions of a listening unit with a picture: the unit before is closed in the same forward."""
MEL_FRAMES: Final = 104
WINDOW: Final = 28
PROMPT_CODES: Final = 200
"""Eight seconds of reference voice."""
CONDITION: Final = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """``run`` is one call; ``per_unit`` how often a speaking unit with five words calls it.

    ``layers``: of how many the call has, ``all_layers`` of how many the released network has: what a call of fewer
    costs is scaled.  ``graph``: whether the call is free of host work, so that a CUDA graph can hold it.
    """

    name: str
    run: Callable[[], object]
    per_unit: int
    bytes: int
    operations: float
    layers: int = 1
    all_layers: int = 1
    graph: bool = True


@dataclass(frozen=True, slots=True)
class Sizes:
    """``config`` of the main network, of the flow and of the vocoder."""

    name: str
    config: OmniConfig
    flow: FlowConfig
    hift: HiftConfig
    context: int
    """Positions in the thinker's cache while it is timed."""


def released(layers: int | None = None) -> Sizes:
    """The published sizes; ``layers``: only so many of every tower."""

    def of(count: int) -> int:
        return count if layers is None else min(layers, count)

    vocabulary = 151_748
    config = OmniConfig.model_validate(
        {
            "vocab_size": vocabulary if layers is None else 8192,
            "hidden_size": 4096,
            "intermediate_size": 12_288,
            "num_hidden_layers": of(36),
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "rope_theta": 1e6,
            "vision_config": {
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "num_hidden_layers": of(27),
                "num_attention_heads": 16,
            },
            "audio_config": {
                "d_model": 1024,
                "encoder_layers": of(24),
                "encoder_attention_heads": 16,
                "encoder_ffn_dim": 4096,
            },
            "tts_config": {
                "llm_dim": 4096,
                "num_text_tokens": 152_064 if layers is None else 8192,
                "num_audio_tokens": 6562,
                "audio_bos_token_id": 1,
                "text_eos_token_id": 2,
                "num_hidden_layers": of(20),
            },
        }
    )
    flow = FlowConfig(
        encoder=EncoderConfig(num_blocks=of(6), num_up_blocks=of(4)),
        decoder=DecoderConfig(estimator=DitConfig(depth=of(16))),
    )
    name = "released" if layers is None else f"released widths, {layers} layer{'s' if layers > 1 else ''}"
    return Sizes(name, config, flow, HiftConfig(), context=4096)


def reduced() -> Sizes:
    """About a hundredth of the weights, every structure kept: for a machine without an accelerator."""
    config = OmniConfig.model_validate(
        {
            "vocab_size": 8192,
            "hidden_size": 512,
            "intermediate_size": 1536,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "rope_theta": 1e6,
            "vision_config": {
                "hidden_size": 288,
                "intermediate_size": 1076,
                "num_hidden_layers": 6,
                "num_attention_heads": 4,
            },
            "audio_config": {
                "d_model": 256,
                "encoder_layers": 6,
                "encoder_attention_heads": 4,
                "encoder_ffn_dim": 1024,
            },
            "tts_config": {
                "llm_dim": 512,
                "num_text_tokens": 8192,
                "num_audio_tokens": 6562,
                "audio_bos_token_id": 1,
                "text_eos_token_id": 2,
                "hidden_size": 256,
                "intermediate_size": 1024,
                "num_hidden_layers": 5,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
            },
        }
    )
    encoder = EncoderConfig(
        input_size=128, output_size=128, attention_heads=4, linear_units=512, num_blocks=3, num_up_blocks=2
    )
    dit = DitConfig(hidden_size=128, depth=4, num_heads=4, head_dim=32)
    flow = FlowConfig(input_size=128, encoder=encoder, decoder=DecoderConfig(estimator=dit))
    return Sizes("reduced", config, flow, HiftConfig(channels=128, f0_channels=128), context=1024)


def stages(sizes: Sizes, device: torch.device, dtype: torch.dtype, whole: Sizes) -> Iterator[Stage]:
    """Every stage of ``sizes`` in the order of a unit, each made when it is asked for; ``whole`` counts its layers."""
    config = sizes.config
    with torch.inference_mode():
        network = build(config, vision_layers=_vision(sizes))
        yield from _sight(network, sizes, device, dtype, whole)
        yield from _hearing(network, config, device, dtype, whole)
        yield from _thinker(network, sizes, device, dtype, whole)
        yield from _talker(network, sizes, device, dtype, whole)
        del network
        yield from _token2wav(sizes, device, whole)


# -- the towers -----------------------------------------------------------------------------------------------------


def _sight(n: Network, sizes: Sizes, device: torch.device, dtype: torch.dtype, whole: Sizes) -> Iterator[Stage]:
    tower, resampler, seen = n.vision, n.resampler, sizes.config.vision
    assert tower is not None
    assert resampler is not None
    assert seen is not None
    _fill(tower, device, dtype)
    _fill(resampler, device, dtype)
    rows = PICTURE[0] * PICTURE[1]
    pixels = torch.randn(1, 3, seen.patch_size, seen.patch_size * rows, device=device, dtype=dtype)
    places = position_ids(PICTURE, seen.side)[None].to(device)
    layers = len(tower.encoder.layers)
    per_row = sum(each.numel() for each in tower.encoder.parameters())
    yield Stage(
        "vision tower, 1280x720",
        lambda: tower(pixels, places, None),
        1,
        _size(tower),
        2.0 * per_row * rows + 4.0 * layers * rows * rows * seen.hidden_size,
        layers,
        _vision(whole),
    )
    feats = torch.randn(1, rows, seen.hidden_size, device=device, dtype=dtype)
    added = resampler.positions(PICTURE)[None]
    width = sizes.config.hidden_size
    yield Stage(
        "resampler",
        lambda: resampler.read(feats, added, None),
        1,
        _size(resampler),
        2.0 * rows * (seen.hidden_size + 2 * width) * width + 4.0 * sizes.config.query_num * rows * width,
    )


def _hearing(n: Network, config: OmniConfig, device: torch.device, dtype: torch.dtype, whole: Sizes) -> Iterator[Stage]:
    encoder, projector, heard = n.encoder, n.projector, config.audio
    assert encoder is not None
    assert projector is not None
    assert heard is not None
    _fill(encoder, device, dtype)
    _fill(projector, device, dtype)
    cache = encoder.cache()
    past, new = heard.max_source_positions // 2, (MEL_FRAMES - 4) // 2
    cache.claim([0], past)
    place = cache.claim([0], new)
    mel = torch.randn(1, heard.num_mel_bins, MEL_FRAMES, device=device)
    present = torch.ones(1, 1, MEL_FRAMES, device=device)
    weights = sum(each.numel() for each in encoder.layers.parameters())
    layers, all_layers = len(encoder.layers), whole.config.audio.encoder_layers if whole.config.audio else 1
    kept = 2 * layers * past * heard.d_model * dtype.itemsize
    yield Stage(
        "audio encoder, 15 s heard",
        lambda: encoder(mel, present, cache, place),
        1,
        _size(encoder) + kept,
        2.0 * weights * new + 4.0 * layers * new * (past + new) * heard.d_model,
        layers,
        all_layers,
    )
    states = torch.randn(1, new, heard.d_model, device=device, dtype=dtype)
    yield Stage(
        "audio projector",
        lambda: projector(states),
        1,
        _size(projector),
        2.0 * (new * heard.d_model + new // projector.pool * config.hidden_size) * config.hidden_size,
    )


def _thinker(n: Network, sizes: Sizes, device: torch.device, dtype: torch.dtype, whole: Sizes) -> Iterator[Stage]:
    thinker, config = n.thinker, sizes.config
    _fill(thinker, device, dtype)
    cache = thinker.cache(sizes.context + 2 * UNIT_ROWS)
    cache.advance(sizes.context)
    layers, all_layers = len(thinker.model.layers), whole.config.num_hidden_layers
    body = sum(each.numel() for each in thinker.model.layers.parameters())
    head = thinker.lm_head.weight.numel()
    kept = 2 * layers * config.num_key_value_heads * config.head_dim * sizes.context * dtype.itemsize
    wide = config.num_attention_heads * config.head_dim
    for name, rows, per_unit in (("prefill, 79 rows", UNIT_ROWS, 1), ("decode, 1 row", 1, 5)):
        embeds = torch.randn(1, rows, config.hidden_size, device=device, dtype=dtype)
        at = cache.place(rows, None, None, group=thinker.group)
        yield Stage(
            f"thinker {name}, {sizes.context} before",
            lambda embeds=embeds, at=at: thinker.run(embeds, cache.k, cache.v, at),
            per_unit,
            (body + head) * dtype.itemsize + kept,
            2.0 * (body * rows + head) + 4.0 * layers * rows * (sizes.context + rows) * wide,
            layers,
            all_layers,
        )


def _talker(n: Network, sizes: Sizes, device: torch.device, dtype: torch.dtype, whole: Sizes) -> Iterator[Stage]:
    talker, tts = n.talker, sizes.config.tts
    assert talker is not None
    assert tts is not None
    _fill(talker, device, dtype)
    ids = torch.arange(CONDITION, device=device)
    hidden = torch.randn(CONDITION, tts.llm_dim, device=device, dtype=dtype)
    meaning = sum(each.numel() for each in talker.projector_semantic.parameters())
    yield Stage(
        "talker condition, 5 words",
        lambda: talker.condition(ids, hidden),
        1,
        meaning * dtype.itemsize,
        2.0 * meaning * CONDITION,
    )
    before = 100
    cache = talker.cache(before + 8)
    cache.advance(before)
    body = sum(each.numel() for part in (talker.model.layers, talker.head_code) for each in part.parameters())
    embeds = torch.randn(1, 1, tts.hidden_size, device=device, dtype=dtype)

    def step() -> None:
        cache.truncate(0, before)
        talker(embeds, cache)

    layers, all_layers = len(talker.model.layers), whole.config.tts.num_hidden_layers if whole.config.tts else 1
    kept = 2 * layers * before * tts.hidden_size * dtype.itemsize
    yield Stage("talker step", step, 26, body * dtype.itemsize + kept, 2.0 * body, layers, all_layers)


def _token2wav(sizes: Sizes, device: torch.device, whole: Sizes) -> Iterator[Stage]:
    """Always float32, as released."""
    flow, hift = Flow(sizes.flow), Hift(sizes.hift)
    _fill(flow, device, torch.float32)
    _fill(hift, device, torch.float32)
    decoder = Token2Wav(flow, hift)
    codes = [each % sizes.flow.vocab_size for each in range(PROMPT_CODES)]
    prompt: Any = VoicePrompt(
        wave16k=torch.zeros(16_000).numpy(),
        codes=torch.tensor(codes).numpy(),
        speaker=torch.randn(sizes.flow.spk_embed_dim).numpy(),
        mel=torch.randn(2 * PROMPT_CODES, sizes.flow.output_size).numpy(),
    )
    base = decoder.base(prompt)
    window = codes[:WINDOW]
    state = base.clone()
    frames = 2 * (WINDOW - 3)
    ids = torch.tensor([window], device=device)
    encoder = state.encoder
    fresh = base.encoder

    def encode() -> Tensor:
        encoder.copy_from(fresh)
        return flow.mu(ids, encoder, last=False)

    weights = sum(each.numel() for each in flow.encoder.parameters())
    up = sizes.flow.encoder
    yield Stage(
        "flow encoder, 28 codes",
        encode,
        1,
        weights * 4,
        2.0 * weights * (WINDOW + frames) / 2,
        up.num_blocks + up.num_up_blocks,
        whole.flow.encoder.num_blocks + whole.flow.encoder.num_up_blocks,
        graph=False,
    )
    dit = sizes.flow.decoder.estimator
    body = sum(each.numel() for each in flow.decoder.parameters())
    held = 2 * PROMPT_CODES

    def draw() -> Tensor:
        fresh_state = base.clone()
        return decoder.mel(fresh_state, window, last=False)

    kept = 4 * 4 * dit.depth * held * dit.num_heads * dit.head_dim * decoder.steps
    yield Stage(
        f"flow with {decoder.steps} DiT steps, 8 s of voice",
        draw,
        1,
        weights * 4 + decoder.steps * body * 4 + kept,
        decoder.steps * (2.0 * body * 2 * frames + 8.0 * dit.depth * frames * (held + frames) * dit.hidden_size),
        dit.depth,
        whole.flow.decoder.estimator.depth,
        graph=False,
    )
    mel = torch.randn(1, sizes.flow.output_size, frames + 8, device=device) - 3.5
    noise = torch.randn(1, 480 * (frames + 8), 9, device=device)
    yield Stage("vocoder, 58 frames", lambda: hift(mel, noise), 1, _size(hift), _convolutions(hift, mel, noise))


# -- helpers --------------------------------------------------------------------------------------------------------


def _vision(sizes: Sizes) -> int:
    return sizes.config.vision.num_hidden_layers if sizes.config.vision else 0


def _size(module: nn.Module) -> int:
    return sum(each.nbytes for each in module.parameters())


def _fill(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Random weights, small enough that nothing overflows; a module on the meta device gets memory first."""
    module.to(dtype)
    if any(each.is_meta for each in module.parameters()):
        module.to_empty(device=device)
    module.to(device)
    for each in module.parameters():
        each.normal_(0, 0.02)
    module.eval()


def _convolutions(module: nn.Module, *given: Tensor) -> float:
    """Operations of all convolutions in one call."""
    total = 0.0

    def count(layer: nn.Module, given: Any, out: Any) -> None:
        nonlocal total
        rows: int = (given[0] if isinstance(layer, nn.ConvTranspose1d) else out).shape[-1]
        total += 2.0 * sum(each.numel() for each in layer.parameters() if each.ndim > 1) * rows

    hooks = [
        each.register_forward_hook(count)
        for each in module.modules()
        if isinstance(each, nn.Conv1d | nn.ConvTranspose1d)
    ]
    module(*given)
    for hook in hooks:
        hook.remove()
    return total
