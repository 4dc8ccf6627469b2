"""The commands ``venus converse`` and ``venus recordings list|delete``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar, cast

import typer
from pydantic import BaseModel
from rich.console import Console

from ..engines.base import Language, SessionOptions, VenusError
from ..engines.catalog import NAMES
from ..engines.commands import DeviceOption, DTypeOption, ModelOption, engine_settings, shown_progress
from .session.settings import SessionSettings
from .timeline import delete_recording
from .timeline import recordings as find_recordings

if TYPE_CHECKING:
    from ..engines.base import FloatPcm
    from ..engines.omni_settings import OmniSettings
    from .video import VideoFile

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


class _Defaults:
    def section(self, model: type[M]) -> M:
        return model()


def _section(context: typer.Context, model: type[M]) -> M:
    return cast("Sections", context.obj or _Defaults()).section(model)


@app.command()
def converse(
    context: typer.Context,
    audio: Annotated[Path | None, typer.Option("--audio", help="What the user says: any sound file.")] = None,
    video: Annotated[Path | None, typer.Option("--video", help="What the user says and shows: a video file.")] = None,
    engine: Annotated[str, typer.Option("--engine", help=f"Who talks: {', '.join(NAMES)}.")] = "cascade",
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DTypeOption = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("conversation"),
    tail: Annotated[float, typer.Option("--tail", min=0, max=600, help="Most seconds to go on after the end.")] = 15.0,
    fast: Annotated[bool, typer.Option("--fast", help="As quick as the engine can; measures no latency.")] = False,
    language: Annotated[Language | None, typer.Option("--language", help="Follows the user if not given.")] = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Name of the agent's voice.")] = None,
) -> None:
    """Feed a recording through the whole runtime; write agent.wav, timeline.jsonl and transcript.json."""
    from .converse import check_folder

    given = _recording(audio, video)
    try:
        check_folder(out)
    except OSError as error:
        raise _unwritable(out, error) from error
    sections = cast("Sections", context.obj or _Defaults())
    own = engine_settings(sections, engine, model, device, dtype)
    options = SessionOptions(language=language, voice=voice, fast=fast)
    asyncio.run(_converse(sections, given, (engine, own), out, tail, options))


def _unwritable(folder: Path, error: OSError) -> ConverseFailed:
    return ConverseFailed(f"{folder} cannot be written: {error.strerror}.")


@dataclass(frozen=True, slots=True)
class _Given:
    """What is heard, and seen where there is a video."""

    audio: FloatPcm
    video: VideoFile | None = None


def _recording(audio: Path | None, video: Path | None) -> _Given:
    from .converse import read_audio

    if audio is not None and video is None:
        return _Given(read_audio(audio))
    if video is not None and audio is None:
        seen = _video(video)
        return _Given(seen.audio, seen)
    raise ConverseFailed("Give either --audio or --video: a video brings its own sound.")


def _video(path: Path) -> VideoFile:
    from .video import read_video

    seen = read_video(path)
    if not seen.has_sound:
        typer.echo(f"{path} has no sound: silence is heard.", err=True)
    if not seen.has_pictures:
        typer.echo(f"{path} has no pictures: only its sound is used.", err=True)
    if seen.broken:
        typer.echo(f"{seen.broken} pieces of the sound of {path} are broken and were left out.", err=True)
    return seen


async def _converse(
    sections: Sections, given: _Given, who: tuple[str, BaseModel], out: Path, tail_s: float, options: SessionOptions
) -> None:
    from ..engines.catalog import create
    from ..engines.store.settings import ModelsSettings
    from . import converse as conversation
    from .video import Ahead

    typer.echo("Loading the models...", err=True)
    with shown_progress(Console(stderr=True)) as progress:
        engine = create(*who, sections.section(ModelsSettings), progress.update)
        try:
            await engine.load()
        except BaseException:
            await engine.close()
            raise
    pictures = None if given.video is None else Ahead(given.video.frames(engine.unit_ms))
    if given.video is not None and given.video.has_pictures and "video" not in engine.modalities:
        typer.echo(f"The engine {who[0]} does not look at pictures here.", err=True)
    settings = sections.section(SessionSettings)
    try:
        outcome = await conversation.converse(given.audio, engine, options, settings, tail_s=tail_s, frames=pictures)
    except ValueError as error:  # a voice or language that the engine does not have
        raise ConverseFailed(str(error)) from error
    finally:
        if pictures is not None:
            pictures.close()
        await engine.close()
    try:
        conversation.write(outcome, out)
    except OSError as error:
        raise _unwritable(out, error) from error
    problem = conversation.failure(outcome)
    if problem is not None:
        raise ConverseFailed(f"{problem} What happened until then is in {out}.")
    typer.echo(f"Written to {out}: {', '.join(conversation.FILES)}")


@app.command()
def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    audio: Annotated[Path | None, typer.Option("--audio", help="A sound file.")] = None,
    video: Annotated[Path | None, typer.Option("--video", help="A video file, of about 8 minutes at most.")] = None,
    image: Annotated[list[Path] | None, typer.Option("--image", help="A picture; may be given repeatedly.")] = None,
    model: ModelOption = None,
    device: DeviceOption = None,
    dtype: DTypeOption = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, max=32_768, help="Longest answer.")] = 1024,
) -> None:
    """Ask the omni network about a recording, a video or pictures; prints its answer."""
    from ..engines.omni.ask import Subject, read_limits
    from ..engines.omni.ask import ask as answers
    from ..engines.store.settings import ModelsSettings
    from .ask import moments, read_image

    if video is not None and (audio is not None or image):
        raise ConverseFailed("Give --video alone: it brings its own sound and pictures.")
    sections = cast("Sections", context.obj or _Defaults())
    own = cast("OmniSettings", engine_settings(sections, "omni", model, device, dtype))
    files = sections.section(ModelsSettings)
    if video is not None:
        limits = read_limits(own, files, max_tokens=max_tokens)
        film = _video(video)
        if not limits.sees:
            if not film.has_sound:
                raise ConverseFailed(f"The checkpoint sees nothing, and {video} has no sound: take the variant omni.")
            typer.echo("The checkpoint sees nothing: it is told what is heard in the video.", err=True)
        subject = Subject(moments=moments(film, limits))
    else:
        pictures = [read_image(path) for path in image or ()]
        subject = Subject(images=pictures, sound=None if audio is None else _recording(audio, None).audio)
    with shown_progress(Console(stderr=True)) as progress:
        pieces = answers(question, subject, own, files, max_tokens=max_tokens, progress=progress.update)
        first = next(pieces, "")  # by then everything is loaded
    typer.echo(first, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()


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
