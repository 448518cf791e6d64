"""The native core is built once for every libldap: it is not linked to one, and takes that of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loader import _native

# The addresses of a port on which nothing listens; libldap must be there to find that out.
_ASKS = """
import ldap
from loader import _native
from loader.server import wire
from loader.server.options import Connection
try:
    _native.Channel(wire.link(Connection(uri="ldap://127.0.0.1:9")), _native.Counters())
except _native.NativeError as error:
    print(error.code)
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "/libldap" in line}))
"""


def test_the_core_links_no_libldap() -> None:
    told = subprocess.run(["readelf", "--dynamic", str(_native.__file__)], capture_output=True, text=True, check=True)
    needed = [line for line in told.stdout.splitlines() if "NEEDED" in line]
    assert needed
    assert not [line for line in needed if "libldap" in line or "liblber" in line]


@pytest.mark.slow
def test_the_core_takes_the_libldap_of_python_ldap() -> None:
    told = subprocess.run([sys.executable, "-c", _ASKS], capture_output=True, text=True, check=True)
    code, libraries = told.stdout.splitlines()
    assert code == "ldap.connect"
    assert len(libraries.split()) == 1
    assert Path(libraries).exists()
