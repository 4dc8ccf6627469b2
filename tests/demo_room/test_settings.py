from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from realtime_venus.demo_room.commands import overridden
from realtime_venus.demo_room.demo import transport
from realtime_venus.demo_room.settings import IncompleteAccess, RoomSettings
from realtime_venus.plugin.main import run
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
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_a_livekit_server_given_in_part_names_what_is_missing(missing: str, how: str) -> None:
    given = {name: value for name, value in ACCESS.items() if name != missing}
    if how == "empty":
        given[missing] = ""
    settings = RoomSettings.model_validate({"livekit": given})
    told = f"set VENUS_ROOM__LIVEKIT__{missing.upper()} too, or give --livekit-{missing}$"
    with pytest.raises(IncompleteAccess, match=told) as caught:
        settings.checked()
    assert SECRET not in str(caught.value)
    with pytest.raises(IncompleteAccess):
        transport(settings)


def test_what_is_whole_is_checked_without_a_word() -> None:
    for settings in (RoomSettings(), RoomSettings.model_validate({"livekit": ACCESS})):
        assert settings.checked() == settings


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


def test_a_secret_alone_in_the_environment_breaks_nothing_and_waits_for_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_ROOM__LIVEKIT__SECRET", SECRET)
    for name in ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)
    assert run(["recordings", "list"]) == 0
    assert run(["agent", "connect", "--room", "lobby"]) == 1
    assert "To reach a LiveKit server, set the server's address (LIVEKIT_URL" in capsys.readouterr().err
    given = {"url": ACCESS["url"], "key": "devkey", "secret": None}
    whole = overridden(load_settings({"room": RoomSettings}).section(RoomSettings), given)
    assert whole.livekit is not None
    assert (whole.livekit.url, whole.livekit.secret.get_secret_value()) == (ACCESS["url"], SECRET)
    assert run(["demo", "--no-open"]) == 1
    shown = capsys.readouterr().err
    assert "set VENUS_ROOM__LIVEKIT__KEY and VENUS_ROOM__LIVEKIT__URL too" in shown
    assert SECRET not in shown


def test_what_should_be_servers_and_is_not_is_told_how_they_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_ROOM__ICE_SERVERS", "stun:x")
    with pytest.raises(
        BadSetting, match=r"""^VENUS_ROOM__ICE_SERVERS must be JSON, for .*'\[{"urls": \["turn:"""
    ) as told:
        load_settings({"room": RoomSettings})
    example = str(told.value).partition("'")[2].rstrip("'")
    monkeypatch.setenv("VENUS_ROOM__ICE_SERVERS", example)
    (server,) = load_settings({"room": RoomSettings}).section(RoomSettings).ice_servers
    assert server.urls == ("turn:turn.example.org:3478",)
