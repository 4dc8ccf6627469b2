"""The whole network of a checkpoint, loaded.

Which towers there are follows from the flags of ``config.json`` and from the tensors that are stored, never from the
name of the model type.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from .audio import AudioEncoder
from .checkpoint import Checkpoint
from .config import CheckpointError, OmniConfig
from .memory import Need, find_device, free_memory
from .projector import AudioProjector
from .resampler import Resampler
from .talker import Talker
from .thinker import Thinker
from .token2wav.config import FlowConfig
from .token2wav.noise import Noise
from .token2wav.stream import Token2Wav
from .tokens import Tokens
from .vision import VisionTower, used_layers

LoadProgress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""

TOKEN2WAV = Path("assets", "token2wav")
THINKER, VISION, RESAMPLER, ENCODER, PROJECTOR, TALKER = (
    "llm.",
    "vpm.",
    "resampler.",
    "apm.",
    "audio_projection_layer.",
    "tts.",
)
_ROOTS = (THINKER, VISION, RESAMPLER, ENCODER, PROJECTOR, TALKER)
_COMPUTED = ("*rotary_emb.inv_freq", "embeddings.position_ids", "pos_embed")
"""Tables that some tools store although they are computed."""
_UNUSED = ("model.embed_tokens.weight",)
"""The talker's Llama stack has an input embedding that nothing reads."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Network:
    """The modules of a network, on the meta device: ``None`` where it has no such tower."""

    thinker: Thinker
    vision: VisionTower | None
    resampler: Resampler | None
    encoder: AudioEncoder | None
    projector: AudioProjector | None
    talker: Talker | None
    dropped: tuple[str, ...] = ()
    """Patterns of stored vision blocks that are not used."""

    def parts(self) -> Iterator[tuple[str, nn.Module, tuple[str, ...]]]:
        """Prefix, module, and patterns of stored tensors that it has no place for."""
        every: tuple[tuple[str, nn.Module | None, tuple[str, ...]], ...] = (
            (THINKER, self.thinker, _COMPUTED),
            (VISION, self.vision, _COMPUTED + self.dropped),
            (RESAMPLER, self.resampler, _COMPUTED),
            (ENCODER, self.encoder, ()),
            (PROJECTOR, self.projector, ()),
            (TALKER, self.talker, _COMPUTED + _UNUSED),
        )
        for prefix, module, ignore in every:
            if module is not None:
                yield prefix, module, ignore

    def numel(self) -> int:
        """Number of parameters."""
        return sum(each.numel() for _, module, _ in self.parts() for each in module.parameters())


def build(config: OmniConfig, *, vision_layers: int, audio: bool = True, talker: bool = True) -> Network:
    """The modules of ``config`` without memory for their parameters; ``vision_layers`` 0 leaves vision out."""
    with torch.device("meta"):
        sees, hears, speaks = config.vision, config.audio, config.tts
        return Network(
            thinker=Thinker(config),
            vision=VisionTower(sees, vision_layers) if sees is not None and vision_layers else None,
            resampler=Resampler(config) if sees is not None and vision_layers else None,
            encoder=AudioEncoder(hears) if hears is not None and audio else None,
            projector=AudioProjector(config) if hears is not None and audio else None,
            talker=Talker(speaks) if speaks is not None and talker else None,
        )


@dataclass(frozen=True, slots=True)
class OmniModel:
    """The loaded network; sessions share it and change nothing in it.  Towers it does not have are ``None``."""

    config: OmniConfig
    tokens: Tokens
    thinker: Thinker
    vision: VisionTower | None
    resampler: Resampler | None
    encoder: AudioEncoder | None
    projector: AudioProjector | None
    talker: Talker | None
    token2wav: Token2Wav | None
    """The speech decoder, always float32; ``None`` without a talker or without its files."""
    device: torch.device
    dtype: torch.dtype

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        steps: int | None = None,
        noise: Noise | None = None,
        speaks: bool = True,
        progress: LoadProgress | None = None,
    ) -> OmniModel:
        """Load the checkpoint in ``folder`` onto ``device``, floating point weights as ``dtype``.

        ``steps`` and ``noise`` are those of :class:`Token2Wav`; without ``speaks`` talker and speech decoder are left
        out.  Everything that can be checked without the weights, the name and shape of every tensor too, is checked
        first.  Raises :class:`CheckpointError` for files that are missing, broken or of another network,
        :class:`NotEnoughMemory` where the weights do not fit, :class:`EngineError` for a device that is not there.
        """
        device = find_device(device)
        config, checkpoint = OmniConfig.load(folder), Checkpoint.open(folder)
        network = of_checkpoint(config, checkpoint, speaks=speaks)
        tokens = Tokens.load(folder, config)
        assets = folder / TOKEN2WAV if network.talker is not None and (folder / TOKEN2WAV).is_dir() else None
        if assets is not None and config.tts is not None:
            known = FlowConfig.load(assets).vocab_size
            if config.tts.num_audio_tokens - 1 > known:
                raise CheckpointError(
                    f"the talker of {folder} has {config.tts.num_audio_tokens - 1} codes, and {assets / 'flow.yaml'} "
                    f"knows {known}: they are of two checkpoints"
                )
        files = 0 if assets is None else sum(path.stat().st_size for path in assets.glob("*.pt"))
        Need(network.numel() * dtype.itemsize, files).check(free_memory(device), 0, str(device))
        for prefix, module, ignore in network.parts():
            checkpoint.plan(module, prefix, ignore=ignore)

        # the smaller files first: what is wrong with them is told before minutes of reading
        token2wav = None if assets is None else Token2Wav.load(assets, device=device, steps=steps, noise=noise)
        done, total = 0, sum(checkpoint.nbytes(prefix) for prefix, _, _ in network.parts())

        def advance(read: int) -> None:
            nonlocal done
            done += read
            if progress is not None:
                progress(done, total)

        for prefix, module, ignore in network.parts():
            checkpoint.load_into(module, prefix, device=device, dtype=dtype, ignore=ignore, progress=advance)
            module.eval()
        if progress is not None:
            progress(total, total)
        return cls(
            config=config,
            tokens=tokens,
            thinker=network.thinker,
            vision=network.vision,
            resampler=network.resampler,
            encoder=network.encoder,
            projector=network.projector,
            talker=network.talker,
            token2wav=token2wav,
            device=device,
            dtype=dtype,
        )


def of_checkpoint(config: OmniConfig, checkpoint: Checkpoint, *, speaks: bool = True) -> Network:
    """The modules that the flags ask for and the files hold; the talker only with ``speaks``.

    Raises :class:`CheckpointError`.
    """
    if not checkpoint.has(THINKER):
        raise CheckpointError(
            f"{checkpoint.folder} holds no thinker ({THINKER}*), but {next(iter(checkpoint.names), 'nothing')}: it is "
            "the checkpoint of another network"
        )
    others = [name for name in checkpoint.names if not name.startswith(_ROOTS)]
    if others:
        logger.warning(
            "%d tensors of %s belong to no part of the network: %s", len(others), checkpoint.folder, others[0]
        )

    def present(flag: bool, section: object, prefix: str, name: str) -> bool:
        if not flag or not checkpoint.has(prefix):
            return False
        if section is None:
            raise CheckpointError(
                f"config.json of {checkpoint.folder} has no {name}, and {prefix}* is stored; fetch it"
            )
        return True

    sees = present(config.init_vision, config.vision, VISION, "vision_config")
    hears = present(config.init_audio, config.audio, ENCODER, "audio_config")
    speaks = speaks and present(config.init_tts, config.tts, TALKER, "tts_config")
    layers, dropped = 0, tuple[str, ...]()
    if sees and config.vision is not None:
        stored = checkpoint.blocks(VISION + "encoder.layers")
        layers = used_layers(stored, config.vision.num_hidden_layers, config.drop_vision_last_layer)
        dropped = tuple(f"encoder.layers.{number}.*" for number in range(layers, stored))
    return replace(build(config, vision_layers=layers, audio=hears, talker=speaks), dropped=dropped)
