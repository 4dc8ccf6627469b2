"""The commands ``venus agent start|dev|connect``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar, cast

import typer
from pydantic import BaseModel, ValidationError

from ...engines import daemons
from ...engines.base import Engine, Language, SessionOptions, VenusError
from .settings import API_KEY, API_SECRET, URL, WorkerSettings

if TYPE_CHECKING:
    from .worker import Worker

M = TypeVar("M", bound=BaseModel)

app = typer.Typer()
agent = typer.Typer(no_args_is_help=True, help="The agent in LiveKit rooms: start, dev, connect.")
app.add_typer(agent, name="agent")

Url = Annotated[str | None, typer.Option(help="The LiveKit server (LIVEKIT_URL or VENUS_WORKER__URL).")]
AgentName = Annotated[str | None, typer.Option(help="Only rooms that ask for this name (VENUS_WORKER__AGENT_NAME).")]
EngineName = Annotated[str | None, typer.Option("--engine", help="Who talks (VENUS_WORKER__ENGINE).")]
Port = Annotated[int | None, typer.Option(help="Port of health and metrics (VENUS_WORKER__PORT).")]
Tokens = Annotated[
    bool | None, typer.Option(help="Serve POST /token there too, for whoever lets users in (…TOKEN_ENDPOINT).")
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]


class Sections(Protocol):
    """Where a command gets its section of the settings from: ``context.obj``."""

    def section(self, model: type[M]) -> M: ...


class _Defaults:
    def section(self, model: type[M]) -> M:
        return model()


@agent.command()
def start(
    context: typer.Context,
    url: Url = None,
    agent_name: AgentName = None,
    engine: EngineName = None,
    port: Port = None,
    token_endpoint: Tokens = None,
    log_level: LogLevel = None,
) -> None:
    """Take jobs from the LiveKit server; told to stop, let the calls finish first."""
    sections = cast(Sections, context.obj or _Defaults())
    given = {"url": url, "agent_name": agent_name, "engine": engine, "port": port, "log_level": log_level}
    settings = overridden(sections.section(WorkerSettings), **given, token_endpoint=token_endpoint)
    _work(sections, settings, drain=True)


@agent.command()
def dev(
    context: typer.Context,
    url: Url = None,
    agent_name: AgentName = None,
    engine: EngineName = None,
    port: Port = 0,
    token_endpoint: Tokens = None,
    log_level: LogLevel = "debug",
) -> None:
    """The same for trying things out: says more, takes any free port, and ends calls at once when told to stop."""
    sections = cast(Sections, context.obj or _Defaults())
    given = {"url": url, "agent_name": agent_name, "engine": engine, "port": port, "log_level": log_level}
    given |= {"token_endpoint": token_endpoint, "log_format": "text"}
    settings = overridden(sections.section(WorkerSettings), **given)
    _work(sections, settings, drain=False)


@agent.command()
def connect(
    context: typer.Context,
    room: Annotated[str, typer.Option("--room", help="Name of the room to join.")],
    identity: Annotated[str, typer.Option(help="As whom; random if not given.")] = "",
    url: Url = None,
    engine: EngineName = None,
    language: Annotated[Language | None, typer.Option(help="Follows the user if not given.")] = None,
    voice: Annotated[str | None, typer.Option(help="Name of the agent's voice.")] = None,
    log_level: LogLevel = None,
) -> None:
    """Join one room and talk there until it is empty; needs no dispatch."""
    from ..rooms.livekit.options import LiveKitOptions
    from ..rooms.livekit.server import check_server
    from ..session.settings import SessionSettings
    from .logs import set_up
    from .signals import stop_on_signals
    from .visit import Visit, visit

    sections = cast(Sections, context.obj or _Defaults())
    given = {"url": url, "engine": engine, "log_level": log_level}
    settings = overridden(sections.section(WorkerSettings), **given).checked()
    set_up(settings.log_level, settings.log_format)
    where = Visit(room, identity, SessionOptions(language=language, voice=voice))
    session, options = sections.section(SessionSettings), sections.section(LiveKitOptions)

    make = engine_maker(sections, settings)

    async def talk() -> str:
        with stop_on_signals() as stop:
            # Loading takes long, and the SDK tries a server that is not there for long: neither is begun in vain.
            await check_server(settings.url, settings.key, settings.secret, (URL, API_KEY, API_SECRET))
            made = make()
            try:
                await made.load()
                return await visit(where, made, settings, stop, session=session, room=options)
            except ValueError as error:  # a voice that the engine does not have
                raise VenusError(str(error)) from error
            finally:
                await made.close()

    typer.echo(f"Left the room: {asyncio.run(talk())}", err=True)


def overridden(settings: WorkerSettings, **values: object) -> WorkerSettings:
    """``settings`` with the options of the command line.  Raises :class:`VenusError`."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return WorkerSettings.model_validate({**dict(settings), **given})
    except ValidationError as error:
        raise VenusError(
            "; ".join(
                f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
                for one in error.errors()
            )
        ) from None


def engine_maker(sections: Sections, settings: WorkerSettings) -> Callable[[], Engine]:
    """How the worker gets its engine.  Raises :class:`VenusError` when there is none of that name, or no checkpoint."""
    from ...engines import catalog
    from ...engines.store.settings import ModelsSettings

    own, models = sections.section(catalog.settings_of(settings.engine)), sections.section(ModelsSettings)
    catalog.check(own, models)
    return lambda: catalog.create(settings.engine, own, models)


def _work(sections: Sections, settings: WorkerSettings, *, drain: bool) -> None:
    from ..rooms.livekit.options import LiveKitOptions
    from ..session.settings import SessionSettings
    from .logs import set_up
    from .worker import Worker

    settings = settings.checked()
    set_up(settings.log_level, settings.log_format)
    worker_of = engine_maker(sections, settings)
    session, room = sections.section(SessionSettings), sections.section(LiveKitOptions)

    def make() -> Worker:
        return Worker(settings, worker_of, session=session, room=room)

    run(make, drain=drain)


def run(make: Callable[[], Worker], *, drain: bool) -> None:
    """Run a worker until a signal ends it."""
    from .signals import end_at_once, stop_on_signals

    async def work() -> bool:
        worker = make()
        with stop_on_signals() as stop:
            await worker.run(stop, drain=drain)
        return worker.stuck

    stuck = asyncio.run(work())
    left = daemons.end_all()
    if stuck or left:
        # A job's thread that does not end would keep the process alive for ever; and an interpreter that is taken down
        # under a thread in native code aborts the process.
        sys.stderr.flush()
        end_at_once()
