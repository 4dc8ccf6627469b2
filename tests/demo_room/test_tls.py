from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession, Fingerprint, web
from realtime_venus.demo_room.server import listening
from realtime_venus.demo_room.settings import RoomSettings
from realtime_venus.demo_room.tls import BadCertificate, context, given, self_signed


def test_a_certificate_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    first = self_signed("0.0.0.0", tmp_path / "tls")
    again = self_signed("0.0.0.0", tmp_path / "tls")
    assert first == again
    assert len(first.fingerprint) == 32 * 3 - 1
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600


def test_another_host_or_an_old_one_gets_a_new_certificate(tmp_path: Path) -> None:
    first = self_signed("192.0.2.1", tmp_path)
    other = self_signed("192.0.2.2", tmp_path)
    assert other.fingerprint != first.fingerprint
    later = self_signed("192.0.2.2", tmp_path, datetime.now(UTC) + timedelta(days=360))
    assert later.fingerprint != other.fingerprint


def test_a_broken_file_is_replaced(tmp_path: Path) -> None:
    made = self_signed("localhost", tmp_path)
    made.certificate.write_text("broken")
    assert self_signed("localhost", tmp_path).fingerprint != made.fingerprint


async def test_the_page_is_served_under_the_printed_fingerprint(tmp_path: Path) -> None:
    certificate = self_signed("127.0.0.1", tmp_path)
    app = web.Application()
    pin = Fingerprint(bytes.fromhex(certificate.fingerprint.replace(":", "")))
    async with listening(app, RoomSettings(port=0), context(certificate)) as address, ClientSession() as client:
        assert address.startswith("https://127.0.0.1:")
        async with client.get(address, ssl=pin) as response:
            assert response.status == 404


def test_given_files_must_be_a_pair(tmp_path: Path) -> None:
    one, two = self_signed("localhost", tmp_path / "1"), self_signed("localhost", tmp_path / "2")
    assert isinstance(context(given(one.certificate, one.key)), ssl.SSLContext)
    with pytest.raises(BadCertificate, match="do not fit"):
        context(given(one.certificate, two.key))
    with pytest.raises(BadCertificate, match="VENUS_ROOM__TLS_CERT"):
        given(tmp_path / "absent", two.key)
    with pytest.raises(BadCertificate, match="cannot be read"):
        given(two.key, two.key)
