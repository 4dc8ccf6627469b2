"""The commands ``venus models pull|list|verify`` and ``venus doctor``."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Annotated, Protocol, TypeVar, cast

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from . import catalog
from .base import EngineError, VenusError
from .cascade.model_size import needed_files
from .cascade.settings import CascadeSettings
from .doctor import EngineVerdict, Report, diagnose, gather
from .machine import available_memory
from .omni_settings import OmniSettings, overridden
from .store import ModelsSettings, Store, checkpoints
from .store import fetching as store_fetching
from .store.errors import PullCancelled, mega

M = TypeVar("M", bound=BaseModel)

PLAIN_EVERY_S = 5.0
"""How often a pull says how far it is where there is no terminal."""


ModelOption = Annotated[
    Path | None, typer.Option("--model", help="Folder of the omni engine's checkpoint (VENUS_OMNI__MODEL).")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="auto, cpu or cuda (VENUS_OMNI__DEVICE).")]
DTypeOption = Annotated[
    str | None, typer.Option("--dtype", help="auto, float32, bfloat16 or float16 (VENUS_OMNI__DTYPE).")
]


class Sections(Protocol):
    """Where a command gets its section of the settings from: ``context.obj``."""

    def section(self, model: type[M]) -> M: ...


def engine_settings(
    sections: Sections, name: str, model: Path | None = None, device: str | None = None, dtype: str | None = None
) -> BaseModel:
    """The settings of the engine ``name``, with the options of a command line.

    Raises :class:`~.base.EngineError` for an unknown engine, and for options that it does not have.
    """
    own = sections.section(catalog.settings_of(name))
    if isinstance(own, OmniSettings):
        return overridden(own, model=model, device=device, dtype=dtype)
    if (model, device, dtype) != (None, None, None):
        raise EngineError(f"--model, --device and --dtype are for --engine omni; the engine {name} has none of them")
    return own


app = typer.Typer()
models = typer.Typer(no_args_is_help=True, help="The model files: fetch, list, check.")
app.add_typer(models, name="models")


def _section(context: typer.Context, model: type[M]) -> M:
    sections = cast(Sections | None, context.obj)
    return model() if sections is None else sections.section(model)


def _store(context: typer.Context) -> Store:
    return Store(_section(context, ModelsSettings))


@models.command()
def pull(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Files, whisper-base, or the weights omni or audio; what the cascade needs if none."),
    ] = None,
    optional: Annotated[bool, typer.Option("--all", help="Also all optional files.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Fetch the weights of omni or audio unasked.")] = False,
) -> None:
    """Fetch what is missing, check it, and make it ready; run it again after a break to go on."""
    store = _store(context)
    wanted = [name for name in names or () if name not in checkpoints.FOLDERS]
    for variant in (name for name in names or () if name in checkpoints.FOLDERS):
        _pull_weights(variant, store.settings, yes=yes)
    if names and not (wanted or optional):
        return
    if not wanted:
        wanted = [*needed_files(store, available_memory(), _section(context, CascadeSettings).model)]
    if optional:
        wanted = [entry.name for entry in (*store.manifest.fetched, *store.manifest.derived)]
    with shown_progress(Console(stderr=True)) as progress:
        done = store.pull(wanted, progress)
    typer.echo(f"{len(done)} model files fetched or made" if done else "All model files are there.")


def _pull_weights(variant: str, settings: ModelsSettings, *, yes: bool) -> None:
    """Show what the hub has of a variant, and fetch it once that is confirmed."""
    listing = checkpoints.list_release(variant, settings)
    with shown_progress(Console(stderr=True)) as progress:
        release = checkpoints.Release(listing, settings, progress)
        lacking = release.lacking()
        if lacking:
            progress.say(f"{checkpoints.REPOSITORY}, {listing.folder}, revision {listing.revision}")
            progress.say(f"licence: {listing.licence}; {len(listing.files)} files, {mega(listing.size)} in all")
            for file in lacking:
                progress.say(f"  {file.path}  {mega(file.size)}  {file.kind} {file.hash}")
    if not lacking:
        typer.echo(f"All files of {listing.folder} are there: {release.folder}")
        return
    size = mega(sum(file.size for file in lacking))
    if not yes and not typer.confirm(f"Fetch {len(lacking)} files, {size}, to {release.folder}?", err=True):
        raise PullCancelled
    with shown_progress(Console(stderr=True)) as progress:
        done = checkpoints.Release(listing, settings, progress).pull()
    typer.echo(f"{len(done)} files fetched to {release.folder}")


@models.command("list")
def list_files(context: typer.Context) -> None:
    """Say which model files there are, whether they are here, and under which licence."""
    table = Table("file", "size", "state", "licence", "for", box=None, pad_edge=False)
    files = tuple(_store(context).status())
    # A name is there to be copied into `venus models pull`: what is too narrow for the rest breaks the rest.
    table.columns[0].no_wrap = True
    table.columns[0].min_width = max((len(one.name) for one in files), default=0)
    for one in files:
        state = "optional" if one.optional and one.state == "missing" else one.state
        size = "" if one.size is None else mega(one.size)
        table.add_row(one.name, size, f"[{_COLOURS[state]}]{state}[/]", one.licence, one.use)
    Console().print(table)


@models.command()
def verify(context: typer.Context, names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Read every model file that is here and compare its SHA-256; exit code 1 when one is corrupt or missing."""
    bad = 0
    console = Console()
    for one in _store(context).verify(names or ()):
        if one.state == "missing" and one.optional and not names:
            continue
        bad += one.state != "ready"
        console.print(f"[{_COLOURS[one.state]}]{one.state:8}[/] {one.name}", highlight=False)
    if bad:
        typer.echo(f"{bad} files are not what they should be; run: venus models pull", err=True)
        raise typer.Exit(1)


_COLOURS = {
    "ready": "green", "unchecked": "yellow", "missing": "red", "corrupt": "red", "optional": "dim",
    "ok": "green", "warning": "yellow", "problem": "red",
}  # fmt: skip


@app.command()
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: the whole report as JSON.")] = False,
) -> None:
    """Say what is installed, which engine can run, and why not; exit code 1 when none can, or settings are wrong."""
    problem: str | None = None
    models, cascade, omni = ModelsSettings(), CascadeSettings(), OmniSettings()
    try:
        models, cascade = _section(context, ModelsSettings), _section(context, CascadeSettings)
        omni = _section(context, OmniSettings)
    except VenusError as error:
        problem = str(error)
    facts = gather(Store(models), cascade.model, omni)
    report = diagnose(facts.model_copy(update={"settings": problem}))
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        _show(report, Console())
    if not report.can_run or problem is not None:
        raise typer.Exit(1)


def _show(report: Report, console: Console) -> None:
    checks = Table(box=None, show_header=False, pad_edge=False)
    fine = [check for check in report.checks if check.kind == "model" and check.grade == "ok"]
    for check in report.checks:
        if check not in fine:
            detail = escape(check.detail) + (f"  [bold]→ {escape(check.remedy)}[/]" if check.remedy else "")
            checks.add_row(f"[{_COLOURS[check.grade]}]{check.grade}[/]", check.subject, detail)
    checks.add_row("[green]ok[/]", "models", f"{len(fine)} files there or optional; venus models list shows each")
    console.print(checks)
    for engine in report.engines:
        console.print()
        _show_engine(engine, console)


def _show_engine(engine: EngineVerdict, console: Console) -> None:
    speaks = f"[green]can run[/], speaks {' and '.join(engine.languages)}" if engine.can_run else "[red]cannot run[/]"
    console.print(f"[bold]engine {engine.name}[/] {speaks}", highlight=False)
    pieces = Table(box=None, show_header=False, pad_edge=False)
    for piece in engine.pieces:
        in_use = piece.in_use or "nothing"
        grade = "problem" if piece.in_use is None else "warning" if piece.fallback else "ok"
        why = "" if piece.why is None else escape(f"{piece.why}  → {piece.remedy}" if piece.remedy else piece.why)
        pieces.add_row(
            "  " + piece.name, f"[{_COLOURS[grade]}]{in_use}{' (fallback)' if piece.fallback else ''}[/]", why
        )
    console.print(pieces)


# -- progress -------------------------------------------------------------------------------------------------------


class _Bar:
    """A progress bar on a terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("models", total=None)

    def update(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def say(self, text: str) -> None:
        self._bar.console.print(escape(text), highlight=False)


class PlainLines:
    """A line now and then, where there is no terminal."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._lock = Lock()
        self._next_s = clock() + PLAIN_EVERY_S

    def update(self, done: int, total: int) -> None:
        with self._lock:
            if self._clock() < self._next_s:
                return
            self._next_s = self._clock() + PLAIN_EVERY_S
        self._write(f"{mega(done)} of {mega(total)}")

    def say(self, text: str) -> None:
        self._write(text)


@contextmanager
def shown_progress(console: Console) -> Generator[store_fetching.Progress]:
    """Progress of a pull, as fits what ``console`` writes to."""
    if not console.is_terminal:
        yield PlainLines(lambda text: typer.echo(text, err=True))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)
