"""Kokoro's vocoder graph with the statistics of its instance normalisations as outputs, or as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...base import EngineError, MissingExtra

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx.utils import Extractor
except ImportError as error:
    raise MissingExtra(__name__, "local") from error


def with_statistics_shown(graph: Path) -> tuple[bytes, list[str]]:
    """The graph that gives its means and variances too, and their names, in order.

    Raises :class:`~...base.EngineError` for a damaged file and for another graph.
    """
    model = _load(graph)
    names = _statistics(model)
    for name in names:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return model.SerializeToString(), names


def with_statistics_given(graph: Path, inputs: Sequence[str]) -> bytes:
    """The graph from ``inputs`` and its means and variances to the audio.  Raises as the other one."""
    model = _load(graph)
    names = _statistics(model)
    typed = {value.name for value in model.graph.value_info}
    for name in names:
        if name not in typed:
            model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return Extractor(model).extract_model([*inputs, *names], ["audio"]).SerializeToString()


def _load(graph: Path) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto.FromString(graph.read_bytes())
    except DecodeError as error:
        raise EngineError(f"The model file {graph} is damaged: run 'venus models verify'") from error
    if not _statistics(model):
        raise EngineError(f"The model file {graph} is not Kokoro's vocoder: run 'venus models verify'")
    return model


def _statistics(model: onnx.ModelProto) -> list[str]:
    """Names of the means and variances of the normalisations."""
    return [node.output[0] for node in model.graph.node if node.op_type == "ReduceMean"]
