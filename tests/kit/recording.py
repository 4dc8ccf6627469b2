"""A recorded stage that notes which of its arrays a test really used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from . import golden


class Recording:
    """``stages/NAME.npz``: arrays are fed to the network (:meth:`given`) or compared with what it made."""

    def __init__(self, name: str) -> None:
        self._arrays = golden.stage(name)
        self.used: set[str] = set()
        """Arrays that were fed, or compared and found equal; one that was only looked at is not among them."""

    @property
    def unused(self) -> set[str]:
        """Arrays that nothing was compared with."""
        return self._arrays.keys() - self.used

    def names(self, prefix: str) -> list[str]:
        """Those of the arrays whose names begin like that; at least one must."""
        found = sorted(name for name in self._arrays if name.startswith(prefix))
        assert found, f"no array {prefix}*"
        return found

    def peek(self, name: str) -> npt.NDArray[Any]:
        """An array, to learn a size from."""
        return self._arrays[name]

    def given(self, name: str) -> npt.NDArray[Any]:
        """An array that the network is fed with, whose outputs are compared."""
        self.used.add(name)
        return self._arrays[name]

    def close(self, name: str, ours: Tensor | npt.ArrayLike, atol: float) -> None:
        """Assert the recorded shape, and no element farther away than ``atol``."""
        array, recorded = np.asarray(ours), self._arrays[name]
        assert array.shape == recorded.shape, name
        np.testing.assert_allclose(array, recorded, rtol=0, atol=atol, err_msg=name)
        self.used.add(name)

    def equal(self, name: str, ours: npt.ArrayLike) -> None:
        """Assert exactly the recorded array."""
        assert np.shape(ours) == self._arrays[name].shape, name
        np.testing.assert_array_equal(np.asarray(ours), self._arrays[name], err_msg=name)
        self.used.add(name)
