from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from realtime_venus.demo_room.settings import RoomSettings, is_loopback


def test_by_default_only_this_machine_is_served_in_plain_http() -> None:
    settings = RoomSettings()
    assert (settings.host, settings.port, settings.loopback, settings.https) == ("127.0.0.1", 7860, True, False)
    assert settings.webrtc().ice_servers == ()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("example.org", False),
    ],
)
def test_what_is_this_machine(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_beyond_this_machine_a_key_is_required_and_named() -> None:
    with pytest.raises(ValidationError, match="VENUS_ROOM__KEY"):
        RoomSettings(host="0.0.0.0")
    settings = RoomSettings.model_validate({"host": "0.0.0.0", "key": "open sesame"})
    assert settings.https


def test_the_key_is_never_printed() -> None:
    assert "sesame" not in repr(RoomSettings.model_validate({"key": "open sesame"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "short"},
        {"port": 70_000},
        {"port": -1},
        {"tls_cert": Path("a.crt")},
        {"allowed_origins": ("*",)},
        {"allowed_origins": ("https://example.org/page",)},
        {"allowed_origins": ("example.org",)},
        {"max_sessions": 0},
        {"ice_servers": ({"urls": ()},)},
        {"unknown": 1},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RoomSettings.model_validate(wrong)


def test_a_certificate_of_ones_own_means_https() -> None:
    assert RoomSettings(tls_cert=Path("a.crt"), tls_key=Path("a.key")).https


def test_turn_servers_reach_the_rooms() -> None:
    server = {"urls": ("turn:turn.example:3478",), "username": "u", "credential": "c"}
    assert RoomSettings.model_validate({"ice_servers": (server,)}).webrtc().ice_servers[0].username == "u"
