from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr
from realtime_venus.demo_room.commands import app, overridden
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.engines.base import VenusError
from realtime_venus.plugin.main import LazySettings
from typer.testing import CliRunner


def test_options_come_before_settings() -> None:
    settings = RoomSettings(port=1, key=SecretStr("open sesame"), grace_s=7)
    changed = overridden(settings, host="0.0.0.0", port=None)
    assert (changed.host, changed.port, changed.grace_s) == ("0.0.0.0", 1, 7)
    assert changed.key == settings.key


def test_an_option_is_checked_as_a_setting_is() -> None:
    with pytest.raises(VenusError, match=r"^VENUS_ROOM__HOST=0\.0\.0\.0 lets other machines in: set VENUS_ROOM__KEY"):
        overridden(RoomSettings(), host="0.0.0.0")
    with pytest.raises(VenusError, match=r"^port: .*65535"):
        overridden(RoomSettings(), port=99_999)


def test_a_livekit_server_is_given_in_parts_and_never_printed() -> None:
    secret = "a-secret-that-is-32-letters-long"
    given = {"url": "ws://localhost:7880", "key": "devkey", "secret": secret}
    changed = overridden(RoomSettings(), given, port=None)
    assert changed.transport == "livekit"
    assert overridden(RoomSettings(), dict.fromkeys(given)).transport == "webrtc"
    elsewhere = overridden(changed, {"url": "wss://example.org", "key": None, "secret": None})
    assert elsewhere.livekit is not None
    assert (elsewhere.livekit.url, elsewhere.livekit.secret) == ("wss://example.org", SecretStr(secret))
    with pytest.raises(VenusError, match="set VENUS_ROOM__LIVEKIT__KEY and VENUS_ROOM__LIVEKIT__URL too") as caught:
        overridden(RoomSettings(), {"url": None, "key": None, "secret": secret})
    assert secret not in str(caught.value)


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(app, ["--engine", "warp", "--no-open", "--port", "0"])
    assert isinstance(result.exception, VenusError)
    assert "cascade" in str(result.exception)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--engine", "warp"], "known are cascade, omni"),
        (["--engine", "omni"], "venus models pull omni"),
        (["--engine", "omni", "--model", "nowhere"], "nowhere is no checkpoint: it has no config.json"),
    ],
)
def test_engine_and_checkpoint_are_looked_for_before_port_and_address(
    options: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VENUS_MODELS__CACHE_DIR", str(tmp_path / "cache"))
    result = CliRunner().invoke(app, [*options, "--no-open", "--port", "99999"], obj=LazySettings())
    assert isinstance(result.exception, VenusError)
    assert told in str(result.exception)


def test_options_of_an_engine_are_checked_before_the_page_is_served() -> None:
    result = CliRunner().invoke(app, ["--engine", "omni", "--device", "abacus", "--no-open", "--port", "0"])
    assert isinstance(result.exception, VenusError)
    assert "device: Input should be 'auto', 'cpu' or 'cuda'" in str(result.exception)
    result = CliRunner().invoke(app, ["--model", "x", "--no-open", "--port", "0"])
    assert isinstance(result.exception, VenusError)
    assert "are for --engine omni" in str(result.exception)
