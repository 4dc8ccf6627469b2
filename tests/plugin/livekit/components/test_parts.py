from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from realtime_venus.engines.base import EngineError, MissingExtra
from realtime_venus.plugin.livekit.components import parts
from realtime_venus.plugin.livekit.components.parts import Lazy, need, prewarm

from .fakes import Writes, parts_of

HEAVY = ("ctranslate2", "hibari", "jieba", "onnxruntime", "opencc", "tokenizers", "xllamacpp")

IMPORT = """
import json, sys, threading
from realtime_venus.plugin.livekit.components import LLM, STT, TTS, VAD
made = STT(), LLM(), TTS(), VAD()
own = [thread.name for thread in threading.enumerate() if thread.name.startswith("venus-")]
print(json.dumps([sorted({name.partition(".")[0] for name in sys.modules}), own]))
"""


def ended(prefix: str) -> None:
    for thread in threading.enumerate():
        if thread.name.startswith(prefix):
            thread.join(10)


def test_making_the_components_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, timeout=120)
    modules, threads = json.loads(done.stdout)
    assert not set(HEAVY) & set(modules)
    assert threads == []


def test_a_part_is_made_once_whoever_asks() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    part = Lazy(make)
    with ThreadPoolExecutor(8) as pool:
        got = [asked.result() for asked in [pool.submit(part) for _ in range(32)]]
    assert len(made) == 1
    assert set(map(id, got)) == {id(made[0])}


def test_a_part_that_failed_to_load_is_tried_again() -> None:
    tries: list[int] = []

    def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise EngineError("not yet")
        return "there"

    part = Lazy(make)
    with pytest.raises(EngineError):
        part()
    assert not part.ready
    assert part() == "there"


def test_prewarming_loads_on_a_thread_of_its_own() -> None:
    names: list[str] = []
    part = Lazy(lambda: names.append(threading.current_thread().name))
    prewarm(part, "thing")
    ended("venus-load-thing")
    assert part.ready
    assert names[0].startswith("venus-load-thing")


def test_prewarming_tells_why_it_failed(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> None:
        raise EngineError("run: venus models pull")

    with caplog.at_level(logging.ERROR):
        prewarm(Lazy(make), "thing")
        ended("venus-load-thing")
    (record,) = caplog.records
    assert vars(record)["part"] == "thing"
    assert "venus models pull" in vars(record)["reason"]


def test_all_of_it_can_be_loaded_beforehand() -> None:
    made = parts_of()
    made.load()
    assert all(part.ready for part in (made.recogniser, made.model, made.voices, made.speech))
    with pytest.raises(EngineError, match="venus models pull"):
        parts_of(voices=EngineError("run: venus models pull")).load()


def test_what_is_unloaded_is_closed_and_loads_anew() -> None:
    model = Writes("Hello.")
    made = parts_of(model=model)
    assert made.model() is model
    made.unload()
    assert model.closed
    assert not made.model.ready
    assert made.model() is model


def test_packages_that_are_not_there_are_named_by_their_extra() -> None:
    need(__name__, "json")
    with pytest.raises(MissingExtra, match=r"realtime-venus\[local\]"):
        need(__name__, "json", "no_such_package_of_ours")


def test_all_components_share_the_parts_of_the_process() -> None:
    assert parts.shared() is parts.shared()


def test_parts_follow_the_settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_CASCADE__MAX_TOKENS", "77")
    assert parts.make_parts().settings().max_tokens == 77
