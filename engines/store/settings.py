"""Settings of the model store (section ``models``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/realtime-venus``; a relative value is ignored, as the XDG specification asks."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "realtime-venus"


class ModelsSettings(BaseModel):
    """Where model files are kept and how they are fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cache_dir: Path = Field(default_factory=default_cache_dir)
    """Folder of the fetched files; may be shared by several installations of one user."""
    sources: tuple[Literal["official", "registry"], ...] = Field(default=("official", "registry"), min_length=1)
    """Which kinds of source are asked, in this order."""
    hub_url: str = Field(default="https://huggingface.co", pattern=r"^https?://[^/]+(/.*)?$")
    """The official model hub, or a mirror of it."""
    parallel: int = Field(default=4, ge=1, le=16)
    """Downloads that run at the same time."""
    connect_timeout_s: float = Field(default=4.0, gt=0, le=60)
    """How long an official host may take to answer before the next source is asked."""
    read_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """How long a download may stand still."""
    package_timeout_s: float = Field(default=900.0, gt=0)
    """How long one registry package may take."""
    lock_timeout_s: float = Field(default=1800.0, gt=0)
    """How long to wait for another pull to finish."""
