"""Settings of the room in the browser (section ``room``)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from ..plugin.rooms.webrtc.options import IceServer, WebRtcOptions

LEAST_KEY = 8
"""Characters of the shortest key."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach a server that listens on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RoomSettings(BaseModel):
    """Where the page is served, who may come in, and how long a session waits for a lost page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address to listen on.  Anything but a loopback address asks for ``key`` and serves HTTPS."""
    port: int = Field(default=7860, ge=0, le=65_535)
    """0 takes any free port."""
    key: SecretStr | None = None
    """What a visitor must type before a session begins."""
    tls_cert: Path | None = None
    """Certificate chain (PEM).  Without it a self-signed one is made when HTTPS is needed."""
    tls_key: Path | None = None
    """Private key (PEM) of ``tls_cert``."""
    allowed_origins: tuple[str, ...] = ()
    """Origins besides the server's own whose pages may talk to it, such as ``https://example.org``."""
    max_sessions: int = Field(default=2, ge=1, le=64)
    """Conversations at the same time; the engine's own limit counts too."""
    grace_s: float = Field(default=20.0, ge=0, le=3600)
    """How long a session waits for a page that was lost."""
    ice_servers: tuple[IceServer, ...] = ()
    """STUN and TURN servers for visitors from elsewhere; none by default."""

    @field_validator("key")
    @classmethod
    def _long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < LEAST_KEY:
            raise ValueError(f"the key needs at least {LEAST_KEY} characters")
        return key

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, found, rest = origin.partition("://")
            if scheme not in ("http", "https") or not found or not rest or "/" in rest or "*" in rest:
                raise ValueError(f"{origin!r} is no origin; write it like https://example.org")
        return origins

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("VENUS_ROOM__TLS_CERT and VENUS_ROOM__TLS_KEY must be set together")
        if not self.loopback and self.key is None:
            raise ValueError(
                f"VENUS_ROOM__HOST={self.host} lets other machines in: set VENUS_ROOM__KEY to a secret of at least "
                f"{LEAST_KEY} characters that visitors must type, or listen on 127.0.0.1"
            )
        return self

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def https(self) -> bool:
        """Browsers give no microphone to plain HTTP from another machine."""
        return not self.loopback or self.tls_cert is not None

    def webrtc(self) -> WebRtcOptions:
        """Options of each session's room."""
        return WebRtcOptions(grace_s=self.grace_s, ice_servers=self.ice_servers)
