"""What the speech decoder's assets say about its sizes.

``flow.yaml`` describes a graph of Python objects (hyperpyyaml).  It is read as plain data: a ``!new:`` tag becomes a
mapping that remembers the class name, and nothing is ever imported or called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError
from torch import Tensor
from yaml.composer import ComposerError

from ...base import EngineError
from ..checkpoint import CheckpointError, check_vocoder_files
from ..config import MOST_CODES, Finite, Layers, Positive

OUTPUT_HZ = 24_000
MEL_HOP = 480
"""Samples of a mel frame."""
FRAMES_PER_CODE = 2
LOOKAHEAD = 3
"""Codes that a window sees beyond those it renders."""
WINDOW = 25
"""Codes that a full window renders: 1 s."""
FLUSH = 8
"""The shortest window (look-ahead included) that is rendered before a turn ends."""
SILENCE_CODE = 4218
TAIL_FRAMES = 100
"""Frames that are kept behind those of the prompt when the attention caches are trimmed."""
MAX_CODES = MOST_CODES
"""Codes of the longest call: a full window and its look-ahead."""
MAX_PROMPT_FRAMES = 850
"""The published buffers hold 1000 frames: prompt, tail and one window."""

_CLASS = "class"
_MOST_TEXT = 64 << 10
"""Characters of the longest description that is read: thirty times the released one."""
_MALFORMED = (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What the parser raises for malformed text, for a value that is none of its tag, and for too deep a nesting."""


class Token2WavError(EngineError):
    """The speech decoder was given what it cannot render."""


class _Sizes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class EncoderConfig(_Sizes):
    """Sizes of the flow's encoder; the literals are structures, and only these are implemented."""

    input_size: PositiveInt = 512
    output_size: PositiveInt = 512
    attention_heads: PositiveInt = 8
    linear_units: PositiveInt = 2048
    num_blocks: Layers = 6
    num_up_blocks: Layers = 4
    pre_lookahead_len: Literal[3] = LOOKAHEAD
    up_stride: Literal[2] = FRAMES_PER_CODE
    up_scale_factor: Literal[2] = FRAMES_PER_CODE
    input_layer: Literal["linear"] = "linear"
    pos_enc_layer_type: Literal["rel_pos_espnet"] = "rel_pos_espnet"
    selfattention_layer_type: Literal["rel_selfattn"] = "rel_selfattn"
    activation_type: Literal["swish"] = "swish"
    key_bias: Literal[True] = True
    normalize_before: Literal[True] = True
    macaron_style: Literal[False] = False
    use_cnn_module: Literal[False] = False


class DitConfig(_Sizes):
    """Sizes of the diffusion transformer."""

    in_channels: PositiveInt = 320
    out_channels: PositiveInt = 80
    hidden_size: PositiveInt = 512
    depth: Layers = 16
    num_heads: PositiveInt = 8
    head_dim: PositiveInt = 64
    mlp_ratio: Positive = 4.0


class DecoderConfig(_Sizes):
    """The sampler around the diffusion transformer."""

    inference_cfg_rate: Finite = 0.7
    estimator: DitConfig = Field(default_factory=DitConfig)


class FlowConfig(_Sizes):
    """Sizes of the flow; every default is that of the released assets."""

    input_size: PositiveInt = 512
    output_size: PositiveInt = 80
    spk_embed_dim: PositiveInt = 192
    vocab_size: PositiveInt = 6561
    encoder: EncoderConfig = Field(default_factory=EncoderConfig)
    decoder: DecoderConfig = Field(default_factory=DecoderConfig)

    @classmethod
    def load(cls, folder: Path) -> FlowConfig:
        """Read ``flow.yaml`` of an asset folder.

        Raises :class:`CheckpointError` for assets of another generation, missing ones and unknown structures.
        """
        check_vocoder_files(folder)
        path = folder / "flow.yaml"
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(_MOST_TEXT + 1)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read ({error}); fetch it again") from error
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str = "flow.yaml") -> FlowConfig:
        """The sizes in the text of a ``flow.yaml``; raises :class:`CheckpointError`."""
        if len(text) > _MOST_TEXT:
            raise CheckpointError(f"{where} is longer than a flow description ever is; fetch it again")
        try:
            root: object = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a safe loader that makes mappings only
        except _MALFORMED as error:
            raise CheckpointError(f"{where} is not YAML that is read here: {error}") from error
        flow = _child(root, "flow", "CausalMaskedDiffWithXvec", where)
        encoder = _child(flow, "encoder", "UpsampleConformerEncoderV2", where)
        decoder = _child(flow, "decoder", "CausalConditionalCFM", where)
        estimator = _child(decoder, "estimator", "DiT", where)
        try:
            config = cls.model_validate({**flow, "encoder": encoder, "decoder": {**decoder, "estimator": estimator}})
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise CheckpointError(f"{where} describes a structure this engine does not know: {faults}") from error
        config.check(where)
        return config

    def check(self, where: str) -> None:
        """Raise :class:`CheckpointError` where sizes contradict each other."""
        encoder, dit = self.encoder, self.decoder.estimator
        if encoder.input_size != self.input_size:
            raise CheckpointError(f"{where}: the encoder takes {encoder.input_size} channels, not {self.input_size}")
        if encoder.output_size % encoder.attention_heads or encoder.output_size % 2:
            raise CheckpointError(f"{where}: width {encoder.output_size} does not divide into the encoder's heads")
        if dit.out_channels != self.output_size or dit.in_channels != 4 * self.output_size:
            raise CheckpointError(
                f"{where}: the transformer must take state, mu, speaker and prompt of {self.output_size} channels each"
            )


class HiftConfig(_Sizes):
    """Sizes of the vocoder; the rates, kernels and the 16-point transform are fixed by its design."""

    mel: int = 80
    channels: int = 512
    f0_channels: int = 512

    @classmethod
    def of(cls, weights: dict[str, Tensor]) -> HiftConfig:
        """The sizes that the stored tensors have (weight norm folded); raises :class:`CheckpointError`."""
        trunk, pitch = weights.get("conv_pre.weight"), weights.get("f0_predictor.condnet.0.weight")
        if trunk is None or pitch is None or trunk.ndim != 3 or pitch.ndim != 3 or trunk.shape[0] % 8:
            raise CheckpointError(
                "hift.pt is not the vocoder this network was trained with: bring the checkpoint's own assets"
            )
        return cls(mel=trunk.shape[1], channels=trunk.shape[0], f0_channels=pitch.shape[0])


class _PlainLoader(yaml.SafeLoader):
    """Safe loader whose unknown tags give plain data, and which takes no aliases.

    No flow description has any, and a few lines of nested ones stand for more values than memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        parser = cast("Any", self)
        if parser.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases are not read", parser.peek_event().start_mark)
        return super().compose_node(parent, index)


def _new(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, f"!new:{suffix} needs named arguments", node.start_mark)
    return {_CLASS: suffix, **cast("dict[str, Any]", loader.construct_mapping(node, deep=True))}


def _other(_loader: yaml.SafeLoader, suffix: str, _node: yaml.Node) -> str:
    # a value that only executing the file would give; where a size is needed, validation names the field
    return f"!{suffix}"


_UNTYPED = cast("Any", _PlainLoader)
_UNTYPED.add_multi_constructor("!new:", _new)
_UNTYPED.add_multi_constructor("!", _other)


def _child(parent: object, name: str, expected: str, where: str) -> dict[str, Any]:
    """The object ``name`` of a mapping, which must be of class ``expected``."""
    child = cast("dict[str, object]", parent).get(name) if isinstance(parent, dict) else None
    if not isinstance(child, dict):
        raise CheckpointError(f"{where} has no object '{name}': it is not the flow description of a checkpoint")
    found = cast("dict[str, Any]", child)
    if str(found.get(_CLASS, "")).rsplit(".", 1)[-1] != expected:
        raise CheckpointError(f"{where}: '{name}' is {found.get(_CLASS, 'no class')}, not {expected}")
    return {key: value for key, value in found.items() if key != _CLASS}
