"""Settings of the room in the browser (section ``room``)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from ..engines.base import VenusError
from ..plugin.network import is_loopback
from ..plugin.rooms.webrtc.options import IceServer, WebRtcOptions

LEAST_KEY = 8
"""Characters of the shortest key."""


class LiveKitAccess(BaseModel):
    """A LiveKit server in whose rooms the conversations take place, and the key pair that lets us in.

    ``url``, ``key`` and ``secret`` belong together, but each may come from somewhere else (the environment, the file,
    the command line): :meth:`RoomSettings.checked` says what is missing.  The secret stays in this process: it signs
    tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = ""
    """Where the server is, for us and for the page: ``ws://`` or ``wss://``."""
    key: SecretStr = SecretStr("")
    secret: SecretStr = SecretStr("")
    token_ttl_s: float = Field(default=120.0, ge=5, le=3600)
    """How long a token lets somebody in.  Who is in stays in; who was lost gets a new one from us."""
    join_deadline_s: float = Field(default=10.0, gt=0, le=60)
    """How long joining a room may take before the visitor is told that the server does not answer."""

    @field_validator("url")
    @classmethod
    def _reachable(cls, url: str) -> str:
        if not url:
            return url
        parts = urlsplit(url)
        wrong = parts.scheme not in ("ws", "wss") or not parts.hostname or "@" in parts.netloc
        if wrong or parts.query or parts.fragment or any(character in url for character in " ;,'\"\\"):
            raise ValueError("the address of a LiveKit server looks like ws://localhost:7880 or wss://example.org")
        return url.rstrip("/")

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of ``key``, ``secret`` and ``url`` are not given."""
        given = {"key": self.key.get_secret_value(), "secret": self.secret.get_secret_value(), "url": self.url}
        return tuple(name for name, value in given.items() if not value)

    @property
    def http_url(self) -> str:
        """The same server's HTTP side."""
        return "http" + self.url.removeprefix("ws")

    @property
    def origins(self) -> tuple[str, str]:
        """What a page must be allowed to connect to."""
        parts, http = urlsplit(self.url), urlsplit(self.http_url)
        return f"{parts.scheme}://{parts.netloc}", f"{http.scheme}://{http.netloc}"


class IncompleteAccess(VenusError):
    """A LiveKit server is asked for, but its address, key or secret is not known."""


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
    ice_servers: tuple[IceServer, ...] = Field(
        default=(),
        examples=[[{"urls": ["turn:turn.example.org:3478"], "username": "venus", "credential": "her password"}]],
    )
    """STUN and TURN servers for visitors from elsewhere; none by default."""
    livekit: LiveKitAccess | None = None
    """Meet visitors in rooms of this LiveKit server; without it each page connects to this process itself."""

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
        plain = urlsplit("" if self.livekit is None else self.livekit.url)
        if self.https and plain.scheme == "ws" and not is_loopback(plain.hostname or ""):
            raise ValueError(
                "the page is served by HTTPS, and browsers then refuse a LiveKit server at ws://: "
                "give it a certificate and set VENUS_ROOM__LIVEKIT__URL to its wss:// address"
            )
        return self

    def checked(self) -> Self:
        """This, with all that is needed to reach the LiveKit server, if there is one.

        Raises :class:`IncompleteAccess`, which names what is missing.
        """
        missing = () if self.livekit is None else self.livekit.missing
        if missing:
            variables = " and ".join(f"VENUS_ROOM__LIVEKIT__{name.upper()}" for name in missing)
            options = " and ".join(f"--livekit-{name}" for name in missing)
            raise IncompleteAccess(
                f"a LiveKit server needs url, key and secret: set {variables} too, or give {options}"
            )
        return self

    @property
    def transport(self) -> Literal["webrtc", "livekit"]:
        """How pages are connected."""
        return "webrtc" if self.livekit is None else "livekit"

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
