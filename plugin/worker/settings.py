"""What can be set about a worker: an agent process that takes jobs from a LiveKit server."""

from __future__ import annotations

import os
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from ...engines.base import VenusError
from ..network import is_loopback

URL = "LIVEKIT_URL"
API_KEY = "LIVEKIT_API_KEY"
API_SECRET = "LIVEKIT_API_SECRET"  # noqa: S105 - the variable's name
AGENT_NAME = "LIVEKIT_AGENT_NAME"


def _is_url(url: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname)
    except ValueError:
        return False


class MissingCredentials(VenusError):
    """The address of the LiveKit server, its key or its secret is not known."""


def _secret(name: str) -> SecretStr | None:
    value = os.environ.get(name, "")
    return SecretStr(value) if value else None


class WorkerSettings(BaseModel):
    """Section ``worker`` of the settings (``VENUS_WORKER__...``).

    What other LiveKit programs read from ``LIVEKIT_URL``, ``LIVEKIT_API_KEY``, ``LIVEKIT_API_SECRET`` and
    ``LIVEKIT_AGENT_NAME`` is taken from there where the section does not say it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    url: str = Field(default_factory=lambda: os.environ.get(URL, ""))
    """The LiveKit server: ``ws://``, ``wss://``, ``http://`` or ``https://``."""
    api_key: SecretStr | None = Field(default_factory=lambda: _secret(API_KEY))
    api_secret: SecretStr | None = Field(default_factory=lambda: _secret(API_SECRET))
    agent_name: str = Field(default_factory=lambda: os.environ.get(AGENT_NAME, ""), max_length=128)
    """Empty: every new room gets an agent.  Otherwise only rooms that ask for an agent of this name."""
    display_name: str = Field(default="Venus", max_length=128)
    """What the room shows as the agent's name."""
    engine: str = "cascade"
    """Who talks; ``venus doctor`` names the engines."""
    max_sessions: int | None = Field(default=None, ge=1, le=1024)
    """Calls at the same time; the engine's own limit holds as well, and alone when this is not set."""
    host: str = Field(default="127.0.0.1", min_length=1)
    """Address of the health and metrics endpoint; ``0.0.0.0`` lets other machines ask."""
    port: int = Field(default=8081, ge=0, le=65_535)
    """Its port; 0 takes any free one."""
    token_endpoint: bool = False
    """Serve ``POST /token`` there too: tokens for users while a worker is free, else 503 with the reason."""
    token_secret: SecretStr | None = Field(default=None, min_length=16)
    """Sent as ``Authorization: Bearer …`` by whoever asks for tokens; needed when ``host`` is no loopback address."""
    token_ttl_s: int = Field(default=120, ge=5, le=3600)
    """How long a token lets a user in.  Who is in stays in."""
    token_url: str = ""
    """Where users reach the LiveKit server, when they do so by another address than ``url``."""
    token_workers: tuple[str, ...] = Field(default=(), max_length=64)
    """Endpoints of the other workers (``http://10.0.0.2:8081``), which are asked for a free place too."""
    drain_timeout_s: int = Field(default=3600, ge=0, le=86_400)
    """How long calls may go on after the worker was told to stop.  0 ends them at once."""
    leave_timeout_s: float = Field(default=10.0, ge=1, le=120)
    """How long leaving the rooms may take after that."""
    connect_attempts: int = Field(default=16, ge=1, le=10_000)
    """Attempts to reach the LiveKit server in a row (0 to 10 s between them) before the worker gives up."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @field_validator("url", "token_url")
    @classmethod
    def _address(cls, url: str) -> str:
        if url and not _is_url(url, "ws", "wss", "http", "https"):
            raise ValueError("the LiveKit server's address begins with ws://, wss://, http:// or https://")
        return url

    @field_validator("token_workers")
    @classmethod
    def _endpoints(cls, workers: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_is_url(worker, "http", "https") for worker in workers):
            raise ValueError("a worker's endpoint looks like http://10.0.0.2:8081")
        return tuple(worker.rstrip("/") for worker in workers)

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.token_endpoint and self.token_secret is None and not is_loopback(self.host):
            raise ValueError(
                "beyond this machine anybody would get tokens: set VENUS_WORKER__TOKEN_SECRET too, or host 127.0.0.1"
            )
        return self

    def checked(self) -> Self:
        """This, with all that is needed to reach the server.  Raises :class:`MissingCredentials`."""
        needed = {
            "the server's address (LIVEKIT_URL or VENUS_WORKER__URL)": bool(self.url),
            "an API key (LIVEKIT_API_KEY or VENUS_WORKER__API_KEY)": bool(self.key),
            "its secret (LIVEKIT_API_SECRET or VENUS_WORKER__API_SECRET)": bool(self.secret),
        }
        missing = [what for what, there in needed.items() if not there]
        if missing:
            raise MissingCredentials(f"To reach a LiveKit server, set {', '.join(missing)}.")
        return self

    @property
    def key(self) -> str:
        """The API key, or nothing."""
        return self.api_key.get_secret_value() if self.api_key else ""

    @property
    def secret(self) -> str:
        """The API secret, or nothing."""
        return self.api_secret.get_secret_value() if self.api_secret else ""
