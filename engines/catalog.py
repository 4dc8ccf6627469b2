"""Engines by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import BaseModel

from .base import Engine, EngineError
from .cascade.settings import CascadeSettings
from .omni_settings import OmniSettings
from .store.checkpoints import checkpoint_folder
from .store.settings import ModelsSettings

SETTINGS: Final[dict[str, type[BaseModel]]] = {"cascade": CascadeSettings, "omni": OmniSettings}
"""The section of the settings that each engine has."""
NAMES: Final = tuple(SETTINGS)


def settings_of(name: str) -> type[BaseModel]:
    """The kind of settings that the engine ``name`` takes.  Raises :class:`~.base.EngineError` for an unknown name."""
    if name not in SETTINGS:
        raise EngineError(f"unknown engine {name!r}: known are {', '.join(NAMES)}")
    return SETTINGS[name]


def check(settings: BaseModel, models: ModelsSettings) -> None:
    """See whether there is a checkpoint for an engine that needs one; nothing is loaded, and nobody is asked.

    Raises :class:`~.base.EngineError`, which says how to get one.
    """
    if isinstance(settings, OmniSettings):
        checkpoint_folder(settings.model, models)


def create(
    name: str = "cascade",
    settings: BaseModel | None = None,
    models: ModelsSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Engine:
    """Make an engine, not yet loaded.

    ``settings`` are those of the engine (:func:`settings_of`); ``progress`` is told the bytes of weights that were
    read and those in all, by engines that take long to load.  Raises :class:`~.base.EngineError` for an unknown name
    or settings of another engine, and :class:`~.base.MissingExtra` when its packages are missing.
    """
    kind = settings_of(name)
    chosen = kind() if settings is None else settings
    if type(chosen) is not kind:
        raise EngineError(f"the engine {name} takes {kind.__name__}, not {type(chosen).__name__}")
    models = models or ModelsSettings()
    if isinstance(chosen, OmniSettings):
        from .omni.engine import OmniEngine

        return OmniEngine(chosen, models, progress)
    assert isinstance(chosen, CascadeSettings)
    from .cascade.engine import CascadeEngine
    from .cascade.loading import load
    from .store.store import Store

    store = Store(models)
    return CascadeEngine(chosen, lambda wanted: load(wanted, store))
