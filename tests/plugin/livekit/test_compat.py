from __future__ import annotations

import pytest
from realtime_venus.plugin.livekit import compat


@pytest.mark.parametrize("version", ["1.8.9", "1.8.10", "1.8.9.post1"])
def test_releases_that_are_known_pass(version: str) -> None:
    compat.check_version(lambda _: version)


@pytest.mark.parametrize("version", ["1.8.8", "1.9.0", "1.9", "2.0.1", "0.12", "unknown"])
def test_another_release_is_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(compat.UnsupportedLiveKit, match=r"pip install 'livekit-agents>=1\.8\.9,<1\.9'"):
        compat.check_version(lambda _: version)
