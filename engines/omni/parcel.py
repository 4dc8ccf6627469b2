"""A session's state as bytes: a safetensors file whose header holds the rest as JSON.  Nothing in it is executed."""

from __future__ import annotations

import json
import struct
from typing import Any, Final, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

VERSION: Final = "venus-omni-session/3"
_TENSOR, _ARRAY, _TUPLE = "$tensor", "$array", "$tuple"
_LENGTH: Final = struct.Struct("<Q")


def pack(state: dict[str, Any], made_by: str) -> bytes:
    """``state`` (tensors, arrays, numbers, texts, and lists, tuples and dicts of them) as bytes.

    ``made_by`` says of what network and settings it is; :func:`unpack` asks for it again.
    """
    tensors: dict[str, Tensor] = {}
    document = {"version": VERSION, "made_by": made_by, "state": _down(state, tensors)}
    return save(tensors, {"venus": json.dumps(document)})


def unpack(parcel: bytes, made_by: str) -> dict[str, Any]:
    """The state that was packed, tensors on the CPU.

    Raises ``ValueError`` for anything that is not a whole parcel of this version, made by ``made_by``.
    """
    try:
        (length,) = _LENGTH.unpack_from(parcel)
        header: Any = json.loads(parcel[_LENGTH.size : _LENGTH.size + length])
        document: Any = json.loads(header["__metadata__"]["venus"])
        version, maker, state = document["version"], document["made_by"], document["state"]
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not a snapshot of an omni session") from error
    if version != VERSION:
        raise ValueError(f"a snapshot of another version of the engine: {version}, not {VERSION}")
    if maker != made_by:
        raise ValueError("a snapshot of another checkpoint, of another voice or of other settings than this engine has")
    try:
        return cast("dict[str, Any]", _up(state, load(parcel)))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError("a snapshot that is cut off or was changed") from error


def _down(value: object, tensors: dict[str, Tensor]) -> object:
    if isinstance(value, Tensor | np.ndarray):
        key = str(len(tensors))
        kind = _TENSOR if isinstance(value, Tensor) else _ARRAY
        held = value if isinstance(value, Tensor) else torch.from_numpy(np.ascontiguousarray(value))  # pyright: ignore
        tensors[key] = held.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {kind: key}
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        if any(not isinstance(key, str) or key.startswith("$") for key in items):
            raise TypeError("keys of a session's state are plain words")
        return {key: _down(each, tensors) for key, each in cast("dict[str, object]", items).items()}
    if isinstance(value, tuple):
        return {_TUPLE: [_down(each, tensors) for each in cast("tuple[object, ...]", value)]}
    if isinstance(value, list):
        return [_down(each, tensors) for each in cast("list[object]", value)]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"a session's state holds no {type(value).__name__}")


def _up(value: object, tensors: dict[str, Tensor]) -> object:
    if isinstance(value, list):
        return [_up(each, tensors) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    items = cast("dict[str, object]", value)
    match items:
        case {"$tensor": str(key)}:
            return tensors[key]
        case {"$array": str(key)}:
            return tensors[key].numpy()
        case {"$tuple": each}:
            return tuple(_up(one, tensors) for one in cast("list[object]", each))
        case _:
            return {key: _up(each, tensors) for key, each in items.items()}
