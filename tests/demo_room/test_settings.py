from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.plugin.settings import BadSetting, load_settings


def test_by_default_only_this_machine_is_served_in_plain_http() -> None:
    settings = RoomSettings()
    assert (settings.host, settings.port, settings.loopback, settings.https) == ("127.0.0.1", 7860, True, False)
    assert settings.webrtc().ice_servers == ()


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


# -- a LiveKit server -------------------------------------------------------------------------------------------------

SECRET = "a-secret-that-is-32-letters-long"
ACCESS = {"url": "ws://localhost:7880", "key": "devkey", "secret": SECRET}


def test_a_livekit_server_is_used_when_it_is_given_whole() -> None:
    assert RoomSettings().transport == "webrtc"
    settings = RoomSettings.model_validate({"livekit": ACCESS})
    assert settings.transport == "livekit"
    assert settings.livekit is not None
    assert settings.livekit.http_url == "http://localhost:7880"
    assert settings.livekit.origins == ("ws://localhost:7880", "http://localhost:7880")


@pytest.mark.parametrize("missing", ["url", "key", "secret"])
def test_a_livekit_server_given_in_part_names_what_is_missing(missing: str) -> None:
    given = {name: value for name, value in ACCESS.items() if name != missing}
    with pytest.raises(ValidationError, match=f"set VENUS_ROOM__LIVEKIT__{missing.upper()} too"):
        RoomSettings.model_validate({"livekit": given})


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:7880",
        "localhost:7880",
        "ws://",
        "wss://user:word@example.org",
        "wss://example.org?x=1",
        "wss://example.org#x",
        "wss://example.org; script-src *",
        "wss://example.org https://evil.example",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="looks like"):
        RoomSettings.model_validate({"livekit": {**ACCESS, "url": url}})


def test_a_page_on_https_needs_a_livekit_server_on_tls() -> None:
    beyond = {"host": "0.0.0.0", "key": "open sesame"}
    with pytest.raises(ValidationError, match=r"wss://"):
        RoomSettings.model_validate({**beyond, "livekit": {**ACCESS, "url": "ws://livekit.example"}})
    for url in ("wss://livekit.example/", "ws://127.0.0.1:7880"):
        settings = RoomSettings.model_validate({**beyond, "livekit": {**ACCESS, "url": url}})
        assert settings.livekit is not None
        assert settings.livekit.url == url.rstrip("/")


def test_the_secret_is_never_printed() -> None:
    assert SECRET not in repr(RoomSettings.model_validate({"livekit": ACCESS}))


def test_it_is_set_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ACCESS.items():
        monkeypatch.setenv(f"VENUS_ROOM__LIVEKIT__{name.upper()}", value)
    settings = load_settings({"room": RoomSettings}).section(RoomSettings)
    assert settings.livekit is not None
    assert (settings.livekit.url, settings.livekit.secret.get_secret_value()) == (ACCESS["url"], SECRET)
    monkeypatch.delenv("VENUS_ROOM__LIVEKIT__KEY")
    with pytest.raises(BadSetting, match="VENUS_ROOM__LIVEKIT__KEY") as caught:
        load_settings({"room": RoomSettings})
    assert SECRET not in str(caught.value)
