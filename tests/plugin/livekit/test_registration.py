from __future__ import annotations

import json
import subprocess
import sys

import pytest
from livekit.agents import Plugin
from livekit.plugins import venus
from realtime_venus.engines.store import Store
from realtime_venus.plugin import livekit as package

IMPORT = """
import json, sys, threading
import livekit.agents
before, threads = set(sys.modules), threading.active_count()
from livekit.plugins import venus
venus.DuplexModel()
venus.session_options(), venus.room_options()
print(json.dumps({"new": sorted(set(sys.modules) - before), "threads": threading.active_count() - threads}))
"""
HEAVY = {"onnxruntime", "onnx", "ctranslate2", "faster_whisper", "xllamacpp", "jieba", "misaki", "silero_vad", "torch"}


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_brings_no_model_and_no_thread() -> None:
    found = json.loads(python(IMPORT))
    assert found["threads"] == 0
    assert "livekit.plugins.venus" in found["new"]
    assert not {name.split(".")[0] for name in found["new"]} & HEAVY


def test_the_plugin_is_registered_once_under_its_public_name() -> None:
    (plugin,) = [one for one in Plugin.registered_plugins if isinstance(one, venus.VenusPlugin)]
    assert (plugin.package, plugin.title) == ("livekit.plugins.venus", "livekit.plugins.venus")
    assert plugin.version == venus.__version__


def test_off_the_main_thread_it_can_be_imported_all_the_same() -> None:
    code = """
import threading
from livekit.agents import Plugin
def load():
    from livekit.plugins import venus
    print(venus.DuplexModel().model, len(Plugin.registered_plugins))
thread = threading.Thread(target=load)
thread.start(); thread.join()
"""
    assert python(code).split() == ["cascade", "0"]


def test_download_files_fetches_what_the_default_engine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[tuple[str, ...]] = []

    def pull(_store: Store, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        wanted.append(names)
        return ()

    monkeypatch.setattr(Store, "pull", pull)  # the network ends here
    venus.VenusPlugin().download_files()
    assert wanted == [()], "no names: the set that `venus models pull` fetches"


def test_the_public_name_offers_everything_the_package_does() -> None:
    assert sorted(venus.__all__) == sorted(package.__all__)
    for name in set(venus.__all__):
        assert getattr(venus, name) is getattr(package, name)
    with pytest.raises(AttributeError):
        _ = venus.Nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]  # meant
