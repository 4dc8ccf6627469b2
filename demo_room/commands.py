"""The command ``venus demo``."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Protocol, TypeVar, cast

import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console

from ..engines import catalog
from ..engines.base import Engine, SessionOptions, VenusError
from ..engines.cascade.model_size import needed_files
from ..engines.cascade.settings import CascadeSettings
from ..engines.commands import DeviceOption, DTypeOption, ModelOption, engine_settings, shown_progress
from ..engines.machine import available_memory
from ..engines.store import ModelsSettings, Store
from ..engines.store import fetching as store_fetching
from ..engines.store.errors import PullCancelled
from ..plugin.redaction import Redacting
from ..plugin.rooms.base import MediaRoom
from ..plugin.rooms.livekit.options import LiveKitOptions
from ..plugin.session import Session, SessionSettings
from .demo import serve
from .host import EngineHost, Progress
from .settings import RoomSettings

M = TypeVar("M", bound=BaseModel)

app = typer.Typer()


class Sections(Protocol):
    """Where a command gets its section of the settings from: ``context.obj``."""

    def section(self, model: type[M]) -> M: ...


class _Defaults:
    def section(self, model: type[M]) -> M:
        return model()


@app.command()
def demo(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on (VENUS_ROOM__HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes any free one (VENUS_ROOM__PORT).")] = None,
    engine: Annotated[str, typer.Option(help=f"Who talks: {', '.join(catalog.NAMES)}.")] = "cascade",
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DTypeOption = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    livekit_url: Annotated[
        str | None, typer.Option(help="Meet in rooms of this LiveKit server, ws://... (VENUS_ROOM__LIVEKIT__URL).")
    ] = None,
    livekit_key: Annotated[str | None, typer.Option(help="Its API key (VENUS_ROOM__LIVEKIT__KEY).")] = None,
    livekit_secret: Annotated[
        str | None,
        typer.Option(help="The key's secret; other users of this machine see it here (VENUS_ROOM__LIVEKIT__SECRET)."),
    ] = None,
) -> None:
    """Talk to Venus in the browser; fetches the voice models when they are missing."""
    sections = cast(Sections, context.obj or _Defaults())
    own = engine_settings(sections, engine, model, device, dtype)
    catalog.check(own, sections.section(ModelsSettings))
    livekit = {"url": livekit_url, "key": livekit_key, "secret": livekit_secret}
    room = overridden(sections.section(RoomSettings), livekit, host=host, port=port)
    handler = logging.StreamHandler()
    handler.setFormatter(Redacting("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    asyncio.run(_demo(sections, room, engine, own, open_browser=open_browser))


def overridden(
    settings: RoomSettings, livekit: Mapping[str, str | None] | None = None, /, **values: object
) -> RoomSettings:
    """``settings`` with the options of the command line, checked as a whole.

    Raises :class:`VenusError`, which never holds a secret.
    """
    given = {name: value for name, value in values.items() if value is not None}
    access = {name: value for name, value in (livekit or {}).items() if value is not None}
    if access:
        given["livekit"] = {**dict(settings.livekit or {}), **access}
    try:
        return RoomSettings.model_validate({**dict(settings), **given}).checked()
    except ValidationError as error:
        raise VenusError("; ".join(_complaints(error))) from None


def _complaints(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_input=False, include_context=False):
        where = " ".join(str(part) for part in one["loc"])
        yield f"{where}: {one['msg']}" if one["type"] != "value_error" else one["msg"].removeprefix("Value error, ")


async def _demo(sections: Sections, room: RoomSettings, engine: str, own: BaseModel, *, open_browser: bool) -> None:
    models = sections.section(ModelsSettings)
    session = sections.section(SessionSettings)
    stop = asyncio.Event()
    preparation = _Preparation(engine, own, models)

    async def converse(media: MediaRoom, made: Engine, options: SessionOptions) -> None:
        await Session(media, made, options, session).run()

    def interrupted() -> None:
        preparation.cancel()
        stop.set()
        # A second signal ends the process the hard way.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    await serve(
        room,
        EngineHost(engine, preparation, converse),
        stop,
        lambda line: typer.echo(line),
        cache_dir=models.cache_dir,
        recording=session.record,
        livekit=sections.section(LiveKitOptions),
        ready=_open if open_browser else lambda address: None,
    )


def _open(address: str) -> None:
    # Some browsers are started in the foreground; nothing must wait for them.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True, name="open-browser").start()


class _Preparation:
    """Fetches what is missing, then makes the engine.

    The weights of the omni engine are never fetched here: they are many gigabytes, and asked for by name.
    """

    def __init__(self, name: str, settings: BaseModel, models: ModelsSettings) -> None:
        self._name = name
        self._settings = settings
        self._models = models
        self._cancelled = threading.Event()

    async def __call__(self, report: Callable[[Progress], None]) -> Engine:
        def loading(done: int, total: int) -> None:
            report(Progress("loading", done / total if total else None))

        # Made first, so that an unknown name or a missing package is said before a gigabyte is fetched.
        # Importing its packages takes seconds, during which the page must go on answering.
        engine = await asyncio.to_thread(catalog.create, self._name, self._settings, self._models, loading)
        if isinstance(self._settings, CascadeSettings):
            await asyncio.to_thread(self._pull, report, self._settings)
        return engine

    def cancel(self) -> None:
        """Let a pull that is under way stop at its next block."""
        self._cancelled.set()

    def _pull(self, report: Callable[[Progress], None], settings: CascadeSettings) -> None:
        with shown_progress(Console(stderr=True)) as progress:
            store = Store(self._models)
            names = needed_files(store, available_memory(), settings.model)
            store.pull(names, progress=_Both(progress, report, self._cancelled))


class _Both:
    """Progress on the terminal and on the page; also where a pull learns that it is no longer wanted."""

    def __init__(
        self, terminal: store_fetching.Progress, report: Callable[[Progress], None], cancelled: threading.Event
    ) -> None:
        self._terminal = terminal
        self._report = report
        self._cancelled = cancelled

    def update(self, done: int, total: int) -> None:
        if self._cancelled.is_set():
            raise PullCancelled
        self._terminal.update(done, total)
        self._report(Progress("pulling", done / total if total else None))

    def say(self, text: str) -> None:
        self._terminal.say(text)
