"""Counts what makes the host wait for the device: on the CPU such calls cost nothing, on a GPU each is a pause."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_METHODS = {"tolist", "cpu", "numpy", "__array__"}
_OPERATORS = {
    # item(), int(), bool() and their like: the first two under inference mode, the third elsewhere
    "item",
    "is_nonzero",
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "equal",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
}


class _Methods(TorchFunctionMode):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _METHODS:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.seen = seen

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = str(func.overloadpacket.__name__)
        masks = name.startswith("index") and any(
            part is not None and part.dtype == torch.bool
            for indices in args[1:2]
            for part in (cast("list[Tensor | None]", indices) if isinstance(indices, list | tuple) else [])
        )
        if name in _OPERATORS or masks:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def host_copies() -> Generator[list[str]]:
    """The waits met meanwhile, by name."""
    seen: list[str] = []
    with _Methods(seen), _Operators(seen):
        yield seen
