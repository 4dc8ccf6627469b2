"""Cut the Kokoro graph into its two halves, so that speech can be vocoded piece by piece and silence not at all.

``kokoro-text.onnx``    (tokens, style, speed) -> (text features, F0, energy)
``kokoro-vocoder.onnx`` (text features, F0, energy, style) -> audio

Run one after the other they give the bits of the whole graph.  The boundaries are names of ``kokoro-v1.0.int8.onnx``.
"""

from __future__ import annotations

from pathlib import Path

from ..base import MissingExtra

try:
    import onnx
    from onnx.utils import Extractor
except ImportError as error:
    raise MissingExtra(__name__, "local") from error

BOUNDARY = ("/encoder/MatMul_1_output_0", "/encoder/Reshape_output_0", "/encoder/Reshape_1_output_0")
"""Text features, F0 and energy."""

_HALVES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "kokoro-text": (("tokens", "style", "speed"), BOUNDARY),
    "kokoro-vocoder": ((*BOUNDARY, "style"), ("audio",)),
}


def cut(recipe: str, source: Path, target: Path) -> None:
    """Write the half called ``recipe`` of the graph ``source`` to ``target``."""
    model = onnx.ModelProto.FromString(source.read_bytes())
    typed = {value.name for value in model.graph.value_info}
    for name in BOUNDARY:
        if name not in typed:
            model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    inputs, outputs = _HALVES[recipe]
    target.write_bytes(Extractor(model).extract_model(list(inputs), list(outputs)).SerializeToString())
