"""The ``venus`` command: collects the commands that the folders register, and says errors in one line.

Every folder keeps a typer ``app`` in its ``commands.py``, registered in the group ``realtime_venus.commands``; the
commands of all of them appear at the top level.  ``context.obj`` is a :class:`LazySettings`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape

from ..engines.base import VenusError
from .settings import Settings, load_settings

GROUP = "realtime_venus.commands"
DISTRIBUTION = "realtime-venus"
_USAGE = 2
"""Exit code of a command line that cannot be understood."""

M = TypeVar("M", bound=BaseModel)


class LazySettings:
    """The settings, read when a command first asks, so that ``venus version`` works whatever they say."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self.debug = False

    def section(self, model: type[M]) -> M:
        """See :meth:`Settings.section`."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings.section(model)


def build(
    settings: LazySettings, entries: Sequence[metadata.EntryPoint] | None = None
) -> tuple[typer.Typer, tuple[str, ...]]:
    """The whole command line out of the registered parts, and why some of them could not be imported."""
    apps: list[typer.Typer] = []
    absent: list[str] = []
    for entry in sorted(metadata.entry_points(group=GROUP) if entries is None else entries, key=lambda one: one.name):
        try:
            part: object = entry.load()
        except ImportError as error:
            absent.append(f"The commands of {entry.name} are not available: {error}")
            continue
        if not isinstance(part, typer.Typer):
            raise VenusError(f"the commands of {entry.name} ({entry.value}) are no typer app")
        apps.append(part)
    root = typer.Typer(
        name="venus",
        help="Realtime-Venus: a full-duplex voice agent for WebRTC rooms.",
        epilog=escape("\n\n".join(absent)),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"obj": settings, "help_option_names": ["-h", "--help"]},
    )

    @root.callback()
    def options(  # pyright: ignore[reportUnusedFunction]  (typer keeps it)
        debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
    ) -> None:
        settings.debug = debug

    @root.command()
    def version() -> None:  # pyright: ignore[reportUnusedFunction]  (typer keeps it)
        """Say which version this is."""
        typer.echo(metadata.version(DISTRIBUTION))

    for app in apps:
        root.registered_commands.extend(app.registered_commands)
        root.registered_groups.extend(app.registered_groups)
    return root, tuple(absent)


def run(arguments: Sequence[str], entries: Sequence[metadata.EntryPoint] | None = None) -> int:
    """Run the command line; gives the exit code.  Errors of this project become one red line on the error stream."""
    settings = LazySettings()
    try:
        root, absent = build(settings, entries)
        command = typer.main.get_command(root)
        try:
            command.main(list(arguments), prog_name="venus")
        except SystemExit as end:
            if end.code == _USAGE:
                for line in absent:  # perhaps the command that was asked for is one of these
                    typer.echo(line, err=True)
            return end.code if isinstance(end.code, int) else 1
    except VenusError as error:
        if settings.debug:
            raise
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        return 1
    return 0


def main() -> None:
    """Entry point of the ``venus`` script."""
    sys.exit(run(sys.argv[1:]))
