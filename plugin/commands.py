"""The commands ``venus converse`` and ``venus recordings list|delete``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Protocol, TypeVar, cast

import typer
from pydantic import BaseModel

from ..engines.base import FloatPcm, Language, SessionOptions, VenusError
from .session.settings import SessionSettings
from .timeline import delete_recording
from .timeline import recordings as find_recordings

M = TypeVar("M", bound=BaseModel)


class Sections(Protocol):
    """Where a command gets its section of the settings from: ``context.obj``."""

    def section(self, model: type[M]) -> M: ...


class ConverseFailed(VenusError):
    """The conversation could not be finished; what there is was written."""


class BadRecordingName(VenusError):
    """No recording has that name."""


app = typer.Typer()
recordings = typer.Typer(no_args_is_help=True, help="Recorded sessions: list, delete.")
app.add_typer(recordings, name="recordings")


def _section(context: typer.Context, model: type[M]) -> M:
    sections = cast("Sections | None", context.obj)
    return model() if sections is None else sections.section(model)


@app.command()
def converse(
    context: typer.Context,
    audio: Annotated[Path, typer.Option("--audio", help="What the user says: any sound file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("conversation"),
    tail: Annotated[float, typer.Option("--tail", min=0, max=600, help="Most seconds to go on after the end.")] = 15.0,
    fast: Annotated[bool, typer.Option("--fast", help="As quick as the engine can; measures no latency.")] = False,
    language: Annotated[Language | None, typer.Option("--language", help="Follows the user if not given.")] = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Name of the agent's voice.")] = None,
) -> None:
    """Feed a recording through the whole runtime; write agent.wav, timeline.jsonl and transcript.json."""
    from .converse import read_audio

    samples = read_audio(audio)
    asyncio.run(_converse(context, samples, out, tail, SessionOptions(language=language, voice=voice, fast=fast)))


async def _converse(
    context: typer.Context, samples: FloatPcm, out: Path, tail_s: float, options: SessionOptions
) -> None:
    from ..engines.cascade.settings import CascadeSettings
    from ..engines.catalog import create
    from ..engines.store.settings import ModelsSettings
    from . import converse as conversation

    engine = create("cascade", _section(context, CascadeSettings), _section(context, ModelsSettings))
    typer.echo("Loading the models...", err=True)
    try:
        await engine.load()
        settings = _section(context, SessionSettings)
        try:
            outcome = await conversation.converse(samples, engine, options, settings, tail_s=tail_s)
        except ValueError as error:  # a voice or language that the engine does not have
            raise ConverseFailed(str(error)) from error
    finally:
        await engine.close()
    try:
        conversation.write(outcome, out)
    except OSError as error:
        raise ConverseFailed(f"{out} cannot be written: {error.strerror}.") from error
    problem = conversation.failure(outcome)
    if problem is not None:
        raise ConverseFailed(f"{problem} What happened until then is in {out}.")
    typer.echo(f"Written to {out}: {', '.join(conversation.FILES)}")


@recordings.command("list")
def list_recordings(context: typer.Context) -> None:
    """Name the recorded sessions and their folder."""
    root = _section(context, SessionSettings).recordings_dir
    found = find_recordings(root)
    typer.echo(f"{len(found)} recorded sessions in {root}")
    for folder in found:
        typer.echo(folder.name)


@recordings.command("delete")
def delete_recordings(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Which sessions; see `venus recordings list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Delete recorded sessions, audio and timeline."""
    root = _section(context, SessionSettings).recordings_dir
    found = {folder.name: folder for folder in find_recordings(root)}
    wanted = sorted(found) if everything else list(names or ())
    unknown = [name for name in wanted if name not in found]
    if unknown or not (everything or wanted):
        what = f"There is no recording {unknown[0]!r}" if unknown else "Say which recordings, or --all"
        raise BadRecordingName(f"{what}; `venus recordings list` names them.")
    for name in wanted:
        try:
            delete_recording(found[name])
        except OSError as error:
            raise BadRecordingName(f"{found[name]} cannot be deleted: {error.strerror}.") from error
    typer.echo(f"{len(wanted)} recordings deleted")
