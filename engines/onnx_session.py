"""The one place that talks to onnxruntime, on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import onnxruntime

from .base import EngineError

Tensor = npt.NDArray[Any]

_ERRORS_ONLY: Final = 3


class _Options(Protocol):
    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int

    def add_session_config_entry(self, key: str, value: str) -> None: ...


class _Argument(Protocol):
    name: str
    type: str


class _Session(Protocol):
    def get_inputs(self) -> Sequence[_Argument]: ...

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Tensor]) -> list[Tensor]: ...


class _Errors(Protocol):
    """The library's exceptions have no base class of their own."""

    Fail: type[Exception]
    InvalidGraph: type[Exception]
    InvalidProtobuf: type[Exception]
    InvalidArgument: type[Exception]
    NotImplemented: type[Exception]
    RuntimeException: type[Exception]


class _Runtime(Protocol):
    def SessionOptions(self) -> _Options: ...  # noqa: N802 - onnxruntime's name

    def InferenceSession(self, path: str | bytes, options: _Options, *, providers: Sequence[str]) -> _Session: ...  # noqa: N802


_RUNTIME: Final = cast(_Runtime, onnxruntime)
_ERRORS: Final = cast(_Errors, importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state"))
_UNUSABLE: Final = (
    _ERRORS.Fail,
    _ERRORS.InvalidGraph,
    _ERRORS.InvalidProtobuf,
    _ERRORS.InvalidArgument,
    _ERRORS.NotImplemented,
    _ERRORS.RuntimeException,
)


class OnnxSession:
    """A loaded graph; may be run from several threads at once.

    ``model`` is a file or a serialised graph, ``threads`` the number of cores one run may use.  Raises
    :class:`EngineError` for a file that is not there or is not a usable graph.
    """

    def __init__(self, model: Path | bytes, threads: int = 1) -> None:
        options = _RUNTIME.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # Idle workers would spin on a core that another stage of the same answer is waiting for.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if isinstance(model, Path) and not model.is_file():
            raise EngineError(f"The model file {model} does not exist: run 'venus models pull'")
        source = str(model) if isinstance(model, Path) else model
        try:
            self._session = _RUNTIME.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except _UNUSABLE as error:
            name = f"file {model}" if isinstance(model, Path) else "graph"
            raise EngineError(f"The model {name} is damaged: run 'venus models verify' ({error})") from error

    @property
    def inputs(self) -> dict[str, str]:
        """The graph's inputs by name, in its order, each with its type, e.g. ``tensor(float)``."""
        return {argument.name: argument.type for argument in self._session.get_inputs()}

    def run(self, feeds: Mapping[str, Tensor], outputs: Sequence[str] | None = None) -> list[Tensor]:
        """Run the graph; ``outputs`` names what is wanted, ``None`` means all of it, in the graph's order."""
        return self._session.run(outputs, feeds)


def scalar(tensor: Tensor) -> float:
    """The first value of a tensor."""
    return float(np.ravel(tensor)[0])
