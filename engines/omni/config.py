"""What the checkpoint says about itself: ``config.json`` and the slice parameters of ``preprocessor_config.json``.

Field names inside a section are those of the json.  Whatever is not listed here is kept as an extra field.  Sizes that
differ between the classes and the published checkpoints have no default: they must be in the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from ..base import EngineError


class CheckpointError(EngineError):
    """The files of a model are not what the engine can load; the message names the file or the tensor."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, protected_namespaces=())


Layers = Annotated[int, Field(ge=1, le=1024)]
"""A number of blocks: each is built before the weights are looked at."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Epsilon = Annotated[float, Field(ge=0, le=1)]
RESAMPLER_HEAD: Final = 128
"""Width of a head of the resampler, which has as many as fit."""
MOST_CODES: Final = 28
"""Codes of the speech decoder's longest call, look-ahead included: its buffers hold no more."""


def _divides(section: BaseModel, part: str, whole: str) -> None:
    heads, width = getattr(section, part), getattr(section, whole)
    if width % heads:
        raise ValueError(f"{whole} ({width}) must be a multiple of {part} ({heads})")


def _rotates(name: str, width: int) -> None:
    if width % 2:
        raise ValueError(f"{name} ({width}) must be even: half of each head is rotated against the other")


class SliceConfig(_Section):
    """How a picture is cut and scaled before it is encoded; lengths in pixels."""

    patch_size: PositiveInt = 14
    scale_resolution: Annotated[int, Field(ge=14, le=4096)] = 448
    """Side of the square whose area a slice is scaled to."""
    max_slice_nums: PositiveInt = 1
    """Most slices of one picture in a duplex unit, when the caller says nothing."""
    norm_mean: tuple[Finite, Finite, Finite] = (0.5, 0.5, 0.5)
    norm_std: tuple[Positive, Positive, Positive] = (0.5, 0.5, 0.5)
    """Per channel, of values in [0, 1]."""


class VisionConfig(_Section):
    """The vision tower (SigLIP2 so400m)."""

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: Layers
    num_attention_heads: PositiveInt
    image_size: PositiveInt = 980
    """Side of the largest square picture the tower was trained on; its patches are the rows of the position table."""
    patch_size: PositiveInt = 14
    num_channels: Literal[3] = 3
    layer_norm_eps: Epsilon = 1e-6
    hidden_act: str = "gelu_pytorch_tanh"

    @property
    def side(self) -> int:
        """Positions along each side of the table."""
        return self.image_size // self.patch_size

    @model_validator(mode="after")
    def _known(self) -> VisionConfig:
        _divides(self, "num_attention_heads", "hidden_size")
        if self.hidden_act != "gelu_pytorch_tanh" or self.side < 1:
            raise ValueError(
                "only hidden_act gelu_pytorch_tanh and pictures of at least a patch are built here, not "
                f"{self.hidden_act} with image_size {self.image_size} and patch_size {self.patch_size}"
            )
        return self


class AudioConfig(_Section):
    """The audio encoder (Whisper medium)."""

    d_model: PositiveInt
    encoder_layers: Layers
    encoder_attention_heads: PositiveInt
    encoder_ffn_dim: PositiveInt
    num_mel_bins: PositiveInt = 80
    max_source_positions: PositiveInt = 1500
    activation_function: str = "gelu"
    scale_embedding: bool = False

    @model_validator(mode="after")
    def _known(self) -> AudioConfig:
        _divides(self, "encoder_attention_heads", "d_model")
        if self.activation_function != "gelu" or self.scale_embedding:
            raise ValueError(
                "only activation_function gelu without scale_embedding is built here, not "
                f"{self.activation_function} with scale_embedding {self.scale_embedding}"
            )
        return self


class TalkerConfig(_Section):
    """The speech decoder (a Llama stack over S3 codes).

    What ``tts_config`` says of sampling (temperature, repetition penalty, top-k, top-p) is kept but decides nothing:
    the published duplex decoder does not read it, its own values are the defaults of
    :class:`~.talker_sampler.TalkerSettings`.
    """

    llm_dim: PositiveInt
    num_text_tokens: PositiveInt
    num_audio_tokens: PositiveInt
    """Codes and, as the last one, the end of speech."""
    audio_bos_token_id: int
    text_eos_token_id: int
    hidden_size: PositiveInt = 768
    intermediate_size: PositiveInt = 3072
    num_hidden_layers: Layers = 20
    num_attention_heads: PositiveInt = 12
    num_key_value_heads: PositiveInt = 12
    max_position_embeddings: PositiveInt = 4096
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: Positive = 10_000.0
    hidden_act: str = "silu"
    num_vq: PositiveInt = 1
    condition_type: str = "hidden_text_merge"
    projector_type: str = "mlp"
    normalize_projected_hidden: bool = True
    audio_tokenizer_type: str = "s3tokenizer_step_audio"
    audio_tokenizer_sample_rate: PositiveInt = 16_000
    s3_stream_chunk_size: PositiveInt = 25
    s3_stream_prelook_size: PositiveInt = 3
    s3_stream_n_timesteps: PositiveInt = 10

    @model_validator(mode="after")
    def _known(self) -> TalkerConfig:
        if self.condition_type != "hidden_text_merge" or self.num_vq != 1 or self.projector_type != "mlp":
            raise ValueError(
                "only condition_type hidden_text_merge with projector_type mlp and num_vq 1 is built here, not "
                f"{self.condition_type}, {self.projector_type} and {self.num_vq}"
            )
        _divides(self, "num_attention_heads", "hidden_size")
        _divides(self, "num_key_value_heads", "num_attention_heads")
        _rotates("the width of a talker's head", self.hidden_size // self.num_attention_heads)
        if self.s3_stream_chunk_size + self.s3_stream_prelook_size > MOST_CODES:
            raise ValueError(
                f"s3_stream_chunk_size ({self.s3_stream_chunk_size}) and s3_stream_prelook_size "
                f"({self.s3_stream_prelook_size}) exceed the {MOST_CODES} codes of the speech decoder's longest call"
            )
        for name in ("audio_bos_token_id", "text_eos_token_id"):
            if not 0 <= getattr(self, name) < self.num_text_tokens:
                raise ValueError(
                    f"{name} ({getattr(self, name)}) lies outside num_text_tokens ({self.num_text_tokens})"
                )
        return self


class OmniConfig(_Section):
    """The whole network.  The fields of the thinker (Qwen3, dense) lie flat beside the sections of the towers."""

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: Layers
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    head_dim: PositiveInt = 128
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: Positive
    hidden_act: str = "silu"
    attention_bias: bool = False
    tie_word_embeddings: bool = False
    max_position_embeddings: PositiveInt = 40_960

    vision: VisionConfig | None = Field(default=None, alias="vision_config")
    audio: AudioConfig | None = Field(default=None, alias="audio_config")
    tts: TalkerConfig | None = Field(default=None, alias="tts_config")
    slices: SliceConfig = Field(default_factory=SliceConfig, alias="slice_config")
    chat_slices: PositiveInt = 9
    """Most slices of one picture in turn-based use (``max_slice_nums`` of ``preprocessor_config.json``)."""

    init_vision: bool = True
    init_audio: bool = True
    init_tts: bool = True
    drop_vision_last_layer: bool = True
    query_num: PositiveInt = 64
    """Embeddings per slice."""
    image_size: PositiveInt = 448
    use_image_id: bool = True
    vision_batch_size: PositiveInt = 16
    """Most slices encoded in one batch."""
    audio_pool_step: int = Field(default=5, ge=1, le=50)
    audio_chunk_length: float = Field(default=1.0, ge=0.02, le=30)
    """Seconds of sound that see each other in offline encoding."""
    stream_input: bool = False

    @model_validator(mode="before")
    @classmethod
    def _rope(cls, given: Any) -> Any:
        """Newer files keep the rotary base in a section of its own; one without any would be a silent 10,000."""
        if not isinstance(given, dict):
            return cast("object", given)
        fields = dict(cast("dict[str, Any]", given))
        for name in ("rope_parameters", "rope_scaling"):
            section: Any = fields.get(name)
            if not isinstance(section, dict):
                continue
            rope = cast("dict[str, Any]", section)
            kind = rope.get("rope_type", rope.get("type", "default"))
            if kind != "default":
                raise ValueError(f"{name} of type {kind} is not built here")
            fields.setdefault("rope_theta", rope.get("rope_theta"))
        return fields

    @model_validator(mode="after")
    def _known(self) -> OmniConfig:
        if self.tie_word_embeddings or self.attention_bias:
            raise ValueError("tied embeddings and attention biases are not built here")
        _divides(self, "num_key_value_heads", "num_attention_heads")
        _rotates("head_dim", self.head_dim)
        self._agree()
        acts = {self.hidden_act} | ({self.tts.hidden_act} if self.tts else set[str]())
        if acts != {"silu"}:
            raise ValueError(f"hidden_act must be silu, not {', '.join(sorted(acts))}")
        return self

    def _agree(self) -> None:
        """The sections are of one network: what one of them gives the other takes."""
        sees, hears, speaks = self.vision, self.audio, self.tts
        if speaks is not None and speaks.llm_dim != self.hidden_size:
            raise ValueError(f"llm_dim ({speaks.llm_dim}) of tts_config must be hidden_size ({self.hidden_size})")
        if speaks is not None and speaks.num_text_tokens < self.vocab_size:
            raise ValueError(
                f"num_text_tokens ({speaks.num_text_tokens}) must not be fewer than vocab_size ({self.vocab_size})"
            )
        if hears is not None and hears.encoder_ffn_dim // 4 != hears.d_model:
            raise ValueError(
                f"encoder_ffn_dim ({hears.encoder_ffn_dim}) must be four times d_model ({hears.d_model}), as in Whisper"
            )
        if sees is not None and self.slices.patch_size != sees.patch_size:
            raise ValueError(
                f"patch_size ({self.slices.patch_size}) of slice_config must be that of vision_config "
                f"({sees.patch_size})"
            )
        if sees is not None and self.hidden_size % RESAMPLER_HEAD:
            raise ValueError(
                f"hidden_size ({self.hidden_size}) must be a multiple of {RESAMPLER_HEAD}, a head of the resampler"
            )

    @classmethod
    def load(cls, folder: Path) -> OmniConfig:
        """Read the folder of a checkpoint.

        Raises :class:`CheckpointError` for a folder without ``config.json`` or with one of another model.
        """
        path = folder / "config.json"
        if not path.is_file():
            raise CheckpointError(f"{folder} has no config.json: give the folder that holds the checkpoint's files")
        fields = _read(path)
        processor = folder / "preprocessor_config.json"
        if processor.is_file():
            pictures = _read(processor)
            given: Any = fields.get("slice_config")
            slices: dict[str, Any] = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
            for name in ("norm_mean", "norm_std"):
                if name in pictures:
                    slices.setdefault(name, pictures[name])
            fields["slice_config"] = slices
            if "max_slice_nums" in pictures:
                fields.setdefault("chat_slices", pictures["max_slice_nums"])
        if fields.get("slice_config") is None:
            fields.pop("slice_config", None)
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            more = error.error_count() - 1
            raise CheckpointError(
                f"{path} does not describe a model of the MiniCPM-o 4.5 layout: {where}: {first['msg']}"
                + (f" (and {more} more)" if more else "")
            ) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON ({error}); fetch the file again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object; fetch the file again")
    return cast("dict[str, Any]", content)
