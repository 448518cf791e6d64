"""TLS: can slapd use its certificate, and when do that and those of its CAs expire?"""

from __future__ import annotations

import re
import shlex
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from loader import child, units
from loader.config import Config
from loader.errors import ToolFailed, UsageProblem
from loader.operations.doctor.facts import Certificate, Facts
from loader.operations.storage.findings import Finding, Severity
from loader.storage import files

_CERTIFICATE, _KEY = "olcTLSCertificateFile", "olcTLSCertificateKeyFile"
_CA = "olcTLSCACertificateFile"
_DAY = 86_400.0
_WARNING, _CRITICAL = 30 * _DAY, 7 * _DAY  # seconds left
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_MOST = 20  # certificates of a file; the CAs of a distribution are its own matter


def named(config: Config) -> Iterator[Path]:
    """Files of the configuration."""
    for setting in (_CERTIFICATE, _CA):
        yield from _paths(config, setting)


def look(path: Path) -> tuple[Certificate, ...]:
    """Of one file. Raises LoaderError, OSError."""
    found = _PEM.findall(files.read(path))[:_MOST]
    if not found:
        raise UsageProblem(reason=f"{path} has no certificate in PEM form")
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


def unusable(config: Config) -> str:
    """Why slapd cannot use its certificate; empty if it can, or has none. Raises LoaderError, OSError."""
    pair = [path for name in (_CERTIFICATE, _KEY) for path in _paths(config, name)]
    for path in (*pair, *_paths(config, _CA)):
        if not path.exists():
            return f"there is no {path}"
    if len(pair) != 2:
        return ""
    certificate, key = pair
    # A key with a passphrase, which slapd cannot use either, is answered as one that is none.
    own = _public(certificate, "x509", "-noout", "-pubkey")
    if own != _public(key, "pkey", "-pubout", "-passin", "pass:"):
        return f"the key {key} is not that of the certificate {certificate}"
    return ""


def _paths(config: Config, setting: str) -> list[Path]:
    return [Path(value) for value in config.values("cn=config", setting)]


def _public(path: Path, *arguments: str) -> bytes:
    answer = child.ask(["openssl", *arguments], stdin=files.read(path))
    if answer.status != 0:
        reason = f"{path}: {'; '.join(answer.words[-2:])}"
        raise ToolFailed(tool="openssl", status=answer.status, reason=reason)
    return answer.out


def findings(facts: Facts) -> Iterator[Finding]:
    if facts.tls:
        yield Finding(
            Severity.CRITICAL,
            "certificate.key",
            facts.config,
            facts.tls,
            "slapd does not start with it, or answers no client that wants TLS.",
            (
                "# put the files of one certificate into olcTLSCertificateFile and olcTLSCertificateKeyFile",
            ),
            "slapd-config(5), olcTLSCertificateKeyFile",
        )
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
