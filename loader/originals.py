"""Finds slapd's own tools behind the links of `ditseed shims`. Imports only the standard library, so that a link starts
quickly."""

from __future__ import annotations

import os
import sys

MARK = b"# A link of `ditseed shims`"  # the second line of a link's program
# Directories that are searched after PATH: the PATH of an ordinary user or of cron often lacks sbin.
_SBIN = (
    "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/openldap/sbin:/usr/local/libexec:/usr/libexec/openldap:/opt/symas/sbin"
    ":/opt/symas/bin:/opt/bitnami/openldap/sbin:/opt/zimbra/openldap/sbin"
)


def search(name: str, diverted: bool = False) -> str | None:
    """Returns the path of the first program `name` in PATH, or in a directory where slapd's tools may be, that is not a
    link of `ditseed shims`. `diverted`: also accepts NAME.distrib of dpkg-divert(1), which becomes the server unless
    the caller starts it with `name` as argv[0]."""
    names = (name, f"{name}.distrib") if diverted else (name,)
    for directory in f"{os.environ.get('PATH', os.defpath)}:{_SBIN}".split(":"):
        for path in (os.path.join(directory or ".", each) for each in names):
            if os.path.isfile(path) and os.access(path, os.X_OK) and not is_link(path):
                return path
    return None


def is_link(path: str) -> bool:
    """Returns whether a program is a link of `ditseed shims`."""
    try:
        with open(path, "rb") as file:
            return MARK in file.read(512)
    except OSError:  # a program that this account may run but not read
        return False


def link_program() -> bytes:
    """Returns the program of the links. It runs this installation of ditseed, without variables such as PYTHONPATH."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    lines = (
        f"#!{sys.executable} -I",
        f"{MARK.decode()}: slapadd, slapcat or slapindex, whichever name it is called by.",
        "import sys",
        f"sys.path.insert(0, {root!r})",
        "from loader.operations.shims import main",
        "main()",
    )
    return os.fsencode("\n".join(lines) + "\n")
