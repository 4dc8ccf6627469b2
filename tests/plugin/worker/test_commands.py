from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any, TypeVar, cast

import pytest
from pydantic import BaseModel
from realtime_venus.engines import catalog, daemons
from realtime_venus.engines.base import EngineError, VenusError
from realtime_venus.plugin.main import run
from realtime_venus.plugin.rooms.livekit.server import NoAnswer
from realtime_venus.plugin.worker import commands, logs, signals
from realtime_venus.plugin.worker.commands import agent, app, engine_maker, overridden
from realtime_venus.plugin.worker.settings import MissingCredentials, WorkerSettings
from typer.testing import CliRunner

from ...kit.livekit_server import free_ports
from ...kit.repository import project

M = TypeVar("M", bound=BaseModel)

VALUE = "realtime_venus.plugin.worker.commands:app"


class Given:
    """Default settings but for the worker's."""

    def __init__(self, **worker: object) -> None:
        self.worker = WorkerSettings.model_validate({"url": "", "api_key": None, "api_secret": None, **worker})

    def section(self, model: type[M]) -> M:
        return cast(M, self.worker) if model is WorkerSettings else model()


def test_the_commands_are_registered_and_appear() -> None:
    commands: dict[str, str] = project()["project"]["entry-points"]["realtime_venus.commands"]
    settings: dict[str, str] = project()["project"]["entry-points"]["realtime_venus.settings"]
    assert commands["worker"] == VALUE
    assert settings["worker"] == "realtime_venus.plugin.worker.settings:WorkerSettings"
    shown = CliRunner().invoke(agent, ["--help"]).output
    assert all(name in shown for name in ("start", "dev", "connect"))


def test_help_of_a_command_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    entry = EntryPoint("worker", VALUE, "realtime_venus.commands")
    assert run(["agent", "connect", "--help"], [entry]) == 0
    assert "--room" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["start"], ["dev"], ["connect", "--room", "lobby"]])
def test_without_credentials_each_says_what_to_set(arguments: list[str]) -> None:
    with pytest.raises(MissingCredentials, match=r"LIVEKIT_URL.*LIVEKIT_API_KEY.*LIVEKIT_API_SECRET"):
        CliRunner().invoke(app, ["agent", *arguments], obj=Given(), catch_exceptions=False)


def test_a_server_that_is_not_there_is_said_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def noted(*given: object) -> None:
        made.append(given)

    monkeypatch.setattr(catalog, "create", noted)
    monkeypatch.setattr(logs, "set_up", noted)
    url = f"ws://127.0.0.1:{free_ports(1)[0]}"
    given = Given(url=url, api_key="devkey", api_secret="a-secret-that-is-32-letters-long")
    with pytest.raises(NoAnswer, match=rf"^No LiveKit server answers at {url} .*check LIVEKIT_URL\.$"):
        CliRunner().invoke(app, ["agent", "connect", "--room", "lobby"], obj=given, catch_exceptions=False)
    assert made == [("info", "text")], "nothing but how to log"


def test_the_command_line_goes_before_the_settings() -> None:
    settings = WorkerSettings.model_validate({"url": "ws://there", "port": 1000, "agent_name": "clerk"})
    changed = overridden(settings, url="ws://here", port=0, agent_name=None, token_endpoint=True)
    assert (changed.url, changed.port, changed.agent_name, changed.token_endpoint) == ("ws://here", 0, "clerk", True)
    with pytest.raises(VenusError, match="VENUS_WORKER__TOKEN_SECRET"):
        overridden(WorkerSettings.model_validate({"url": "ws://there", "host": "0.0.0.0"}), token_endpoint=True)


@pytest.mark.parametrize(
    ("name", "value"), [("url", "here"), ("log_level", "loud"), ("port", 70_000), ("agent_name", "x" * 200)]
)
def test_an_impossible_option_is_said_in_one_line(name: str, value: object) -> None:
    with pytest.raises(VenusError, match=name) as caught:
        overridden(WorkerSettings.model_validate({"url": "ws://there"}), **{name: value})
    assert "\n" not in str(caught.value)


def test_an_unknown_engine_is_said() -> None:
    with pytest.raises(EngineError, match="unknown engine 'orchestra'"):
        engine_maker(Given(), WorkerSettings.model_validate({"engine": "orchestra", "url": ""}))()


@pytest.mark.parametrize(("left", "stuck"), [([], False), (["venus-warm"], False), ([], True)])
def test_native_threads_that_go_on_are_not_met_by_the_interpreters_end(
    monkeypatch: pytest.MonkeyPatch, left: list[str], stuck: bool
) -> None:
    class Idle:
        def __init__(self) -> None:
            self.stuck = stuck

        async def run(self, _stop: object, *, drain: bool) -> None:
            assert drain

    ended: list[str] = []
    monkeypatch.setattr(daemons, "end_all", lambda: left)
    monkeypatch.setattr(signals, "end_at_once", lambda: ended.append("at once"))
    commands.run(lambda: cast(Any, Idle()), drain=True)
    assert ended == ["at once"] * bool(left or stuck)
