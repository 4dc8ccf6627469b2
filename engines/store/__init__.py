"""The model store: what is needed, where it comes from, and whether it is what it should be."""

from __future__ import annotations

from .errors import ModelCorrupt, ModelMissing, StoreError
from .settings import ModelsSettings
from .store import Store

__all__ = ["ModelCorrupt", "ModelMissing", "ModelsSettings", "Store", "StoreError"]
