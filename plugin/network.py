"""Addresses that servers of ours listen on."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach a server that listens on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
