from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from realtime_venus.engines.omni.parcel import pack, unpack

STATE: dict[str, Any] = {
    "half": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
    "view": torch.arange(12).reshape(3, 4).T[1:],
    "none": torch.zeros(0, 4),
    "flag": torch.tensor(True),
    "wave": np.linspace(-1, 1, 5, dtype=np.float64),
    "deep": [{"ids": (1, 2), "text": "你好 <b>", "nothing": None}, 2.5, True, []],
    "huge": 3**100,
}


def test_everything_comes_back_as_it_was() -> None:
    back = unpack(pack(STATE, "me"), "me")
    for name in ("half", "view", "none", "flag"):
        assert back[name].dtype == STATE[name].dtype
        assert torch.equal(back[name], STATE[name])
    assert back["wave"].dtype == np.float64
    assert np.array_equal(back["wave"], STATE["wave"])
    assert (back["deep"], back["huge"]) == (STATE["deep"], STATE["huge"])


def test_a_parcel_shares_nothing_with_what_was_packed() -> None:
    tensor = torch.zeros(3)
    packed = pack({"a": tensor, "b": tensor}, "me")
    tensor += 1
    back = unpack(packed, "me")
    assert back["a"].tolist() == back["b"].tolist() == [0, 0, 0]


def test_what_is_no_whole_parcel_is_refused() -> None:
    parcel = pack(STATE, "me")
    for broken in (b"", b"{}", parcel[:7], parcel[:200], parcel[:-1], parcel + b"x", b"\xff" * 64, b"\0" * 64):
        with pytest.raises(ValueError, match="snapshot"):
            unpack(broken, "me")


def test_a_parcel_of_another_engine_or_version_is_refused() -> None:
    with pytest.raises(ValueError, match="another checkpoint"):
        unpack(pack(STATE, "me"), "you")
    parcel = pack({}, "me")
    changed = parcel.replace(b"venus-omni-session/", b"venus-omni-sessiom/")
    with pytest.raises(ValueError, match="another version"):
        unpack(changed, "me")


def test_nothing_in_it_is_executed_or_guessed() -> None:
    header = json.dumps({"__metadata__": {"venus": "cos\nsystem\n(S'true'\ntR."}}).encode()
    with pytest.raises(ValueError, match="not a snapshot"):
        unpack(len(header).to_bytes(8, "little") + header, "me")
    for odd in ({"a": object()}, {"$tensor": "0"}, {1: 2}, {"a": {3}}):
        with pytest.raises(TypeError):
            pack(odd, "me")  # pyright: ignore[reportArgumentType]
