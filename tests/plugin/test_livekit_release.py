from __future__ import annotations

import importlib
import sys

import pytest
from realtime_venus.plugin import livekit_release
from realtime_venus.plugin.livekit_release import UnsupportedLiveKit, check_version


@pytest.mark.parametrize("version", ["1.8.9", "1.8.10", "1.8.9.post1"])
def test_releases_that_are_known_pass(version: str) -> None:
    check_version(lambda _: version)


@pytest.mark.parametrize("version", ["1.8.8", "1.9.0", "1.9", "2.0.1", "0.12", "unknown"])
def test_another_release_is_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(UnsupportedLiveKit, match=rf"{version} is.*pip install 'livekit-agents>=1\.8\.9,<1\.9'"):
        check_version(lambda _: version)


@pytest.mark.parametrize("adapter", ["realtime_venus.plugin.livekit.compat", "realtime_venus.plugin.worker.adapter"])
def test_what_adapts_the_library_checks_its_release_when_imported(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module(adapter)  # whatever it imports is there
    monkeypatch.setattr(livekit_release, "check_version", _refusing)
    monkeypatch.delitem(sys.modules, adapter)
    with pytest.raises(UnsupportedLiveKit):
        importlib.import_module(adapter)


def _refusing() -> None:
    raise UnsupportedLiveKit("another release")
