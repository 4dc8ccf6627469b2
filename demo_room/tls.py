"""HTTPS for rooms that other machines can reach: a given certificate, or one made here and kept."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..engines.base import VenusError

_LIFETIME = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=14)
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on


class BadCertificate(VenusError):
    """The given certificate or key cannot be used."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate and its key; ``fingerprint`` is the SHA-256 as browsers show it."""

    certificate: Path
    key: Path
    fingerprint: str
    self_signed: bool


def given(certificate: Path, key: Path) -> Certificate:
    """The certificate of the settings.  Raises :class:`BadCertificate`."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise BadCertificate(f"VENUS_ROOM__TLS_CERT={certificate} cannot be read as a PEM certificate") from error
    return Certificate(certificate, key, _fingerprint(loaded), self_signed=False)


def self_signed(host: str, folder: Path, now: datetime | None = None) -> Certificate:
    """The certificate kept in ``folder``; made anew when there is none for ``host`` or it is about to expire."""
    now = now or datetime.now(UTC)
    paths = folder / "room.crt", folder / "room.key"
    kept = _kept(paths[0], host, now) if paths[1].is_file() else None
    if kept is None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = _make(host, *paths, now)
    return Certificate(*paths, _fingerprint(kept), self_signed=True)


def context(certificate: Certificate) -> ssl.SSLContext:
    """What the server needs.  Raises :class:`BadCertificate` when certificate and key do not fit."""
    result = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    result.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        result.load_cert_chain(certificate.certificate, certificate.key)
    except (OSError, ssl.SSLError) as error:
        raise BadCertificate(f"{certificate.certificate} and {certificate.key} do not fit together") from error
    return result


def _names(host: str) -> list[x509.GeneralName]:
    names = {"localhost", socket.gethostname()}
    addresses = {"127.0.0.1", "::1"}
    if host not in _WILDCARDS:
        try:
            addresses.add(str(ipaddress.ip_address(host)))
        except ValueError:
            names.add(host)
    else:
        addresses |= _own_addresses()
    result: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted(names)]
    result += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
    return result


def _own_addresses() -> set[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return set()
    return {str(entry[4][0]).partition("%")[0] for entry in found}


def _kept(path: Path, host: str, now: datetime) -> x509.Certificate | None:
    try:
        kept = x509.load_pem_x509_certificate(path.read_bytes())
        names = kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return None
    if kept.not_valid_after_utc - now < _RENEW_BEFORE or list(names) != _names(host):
        return None
    return kept


def _make(host: str, certificate: Path, key_file: Path, now: datetime) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Realtime-Venus room")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_file.unlink(missing_ok=True)
    with os.fdopen(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()
