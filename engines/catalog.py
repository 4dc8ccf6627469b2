"""Engines by name."""

from __future__ import annotations

from .base import Engine, EngineError
from .cascade.settings import CascadeSettings
from .store.settings import ModelsSettings

NAMES = ("cascade",)


def create(
    name: str = "cascade", settings: CascadeSettings | None = None, models: ModelsSettings | None = None
) -> Engine:
    """Make an engine, not yet loaded.

    Raises :class:`~.base.EngineError` for an unknown name and :class:`~.base.MissingExtra` when its packages are
    missing.
    """
    if name not in NAMES:
        raise EngineError(f"unknown engine {name!r}: known are {', '.join(NAMES)}")
    from .cascade.engine import CascadeEngine
    from .cascade.loading import load
    from .store.store import Store

    store = Store(models or ModelsSettings())
    return CascadeEngine(settings or CascadeSettings(), lambda chosen: load(chosen, store))
