"""TLS: when do the server's certificate and those of its CAs expire?"""

from __future__ import annotations

import re
import shlex
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from loader import child, units
from loader.config import Config
from loader.errors import ToolFailed
from loader.operations.doctor.facts import Certificate, Facts
from loader.operations.storage.findings import Finding, Severity
from loader.storage import files

SETTINGS = ("olcTLSCertificateFile", "olcTLSCACertificateFile")
_DAY = 86_400.0
_WARNING, _CRITICAL = 30 * _DAY, 7 * _DAY  # seconds left
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_MOST = 20  # certificates of a file; the CAs of a distribution are its own matter


def named(config: Config) -> Iterator[Path]:
    """Files of the configuration."""
    for setting in SETTINGS:
        yield from (Path(value) for value in config.values("cn=config", setting))


def look(path: Path) -> tuple[Certificate, ...]:
    """Of one file. Raises LoaderError, OSError."""
    found = _PEM.findall(files.read(path))[:_MOST]
    return tuple(_told(path, one, len(found) > 1) for one in found)


def _told(path: Path, pem: bytes, is_one_of_many: bool) -> Certificate:
    asked = ["openssl", "x509", "-noout", "-subject", "-enddate", "-nameopt", "RFC2253"]
    answer = child.ask(asked, stdin=pem)
    told = dict(
        line.partition("=")[::2] for line in answer.out.decode("utf-8", "replace").splitlines()
    )
    try:
        expires = ssl.cert_time_to_seconds(told["notAfter"])
    except (KeyError, ValueError):
        reason = "; ".join(answer.words[-2:]) or "no date"
        raise ToolFailed(tool="openssl", status=answer.status, reason=f"{path}: {reason}") from None
    return Certificate(
        str(path), told.get("subject", "").strip(), expires - time.time(), is_one_of_many
    )


def findings(facts: Facts) -> Iterator[Finding]:
    for one in facts.certificates:
        yield _of(one)


def _of(one: Certificate) -> Finding:
    severity = Severity.OK
    if one.left < _WARNING:
        severe = one.left < _CRITICAL and not one.is_one_of_many
        severity = Severity.CRITICAL if severe else Severity.WARNING
    told = f"expires in {one.left / _DAY:.0f} days"
    if one.left <= 0:
        told = f"has expired {units.duration(-one.left)} ago"
    is_well = severity is Severity.OK
    return Finding(
        severity,
        "certificate",
        one.file,
        f"{one.subject or 'certificate'} {told}",
        "" if is_well else "Clients, consumers among them, refuse a server with an expired one.",
        () if is_well else _mend(one),
        "slapd-config(5), olcTLSCertificateFile",
    )


def _mend(one: Certificate) -> tuple[str, ...]:
    file = shlex.quote(one.file)
    return (f"openssl x509 -noout -text -in {file}", "# renew it, and restart slapd")
