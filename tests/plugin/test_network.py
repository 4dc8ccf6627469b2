from __future__ import annotations

import pytest
from realtime_venus.plugin.network import is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("example.org", False),
    ],
)
def test_what_is_this_machine(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
