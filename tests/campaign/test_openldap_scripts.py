"""OpenLDAP's own test scripts, with slapd's tools and with the links of `ditseed shims` in their place.

DITSEED_OPENLDAP_BUILT names source trees of OpenLDAP, separated by colons. Each is built and installed:
    ./configure --prefix=PREFIX --enable-modules --enable-overlays=mod --enable-mdb=yes --enable-dynacl --enable-aci \
        --enable-crypt --enable-spasswd --enable-argon2 --with-tls=openssl --with-cyrus-sasl
    make depend && make && make install
The trees stay unchanged, because both runs use copies of the folder `tests`. A tree takes about 10 minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from loader.defaults import ENV_SHIM
from tests.support.command import ditseed, environment

BUILT = "DITSEED_OPENLDAP_BUILT"
TREES = [Path(name) for name in os.environ.get(BUILT, "").split(":")]
LONGEST = 180  # seconds for a script; one that takes longer with the originals is left out
TOOLS = {"SLAPADD": "slapadd", "SLAPCAT": "slapcat", "SLAPINDEX": "slapindex"}
# The end of a link's program. It appends a line to the file CALLS for each call, and one for each that it hands over.
LOGGED = """
import os
from loader.operations import shims

def write(line):
    with open(os.environ["CALLS"], "a") as calls:
        print(os.path.basename(sys.argv[0]), line, file=calls)

original = shims._original
shims._original = lambda call, reason: (write(f"handed over: {reason}"), original(call, reason))[1]
write("called")
shims.main()
"""


@dataclass(frozen=True)
class Suite:
    """A copy of a tree's tests. Its scripts call the tools by name, as PATH with `path` before it finds them."""

    tree: Path
    directory: Path
    path: str
    port: int

    def make(self) -> None:
        self.directory.mkdir()
        for path in self.tree.iterdir():
            if path.name != "tests":
                (self.directory / path.name).symlink_to(path)
        shutil.copytree(self.tree / "tests", self.directory / "tests", symlinks=True)
        text = (definitions := self.directory / "tests/scripts/defines.sh").read_text()
        for name, tool in TOOLS.items():
            text, count = re.subn(f'^{name}="(.*) \\S+ -T[aci] ', f'{name}="\\1 {tool} ', text, flags=re.MULTILINE)
            assert count == 1, name
        definitions.write_text(text)

    def status(self, script: str) -> int | None:
        """Runs a script, and returns its exit status; None if it takes longer than LONGEST."""
        path, calls = f"{self.path}:{os.environ['PATH']}", str(self.directory / f"{script}.calls")
        env = environment({"PATH": path, "SLAPD_BASEPORT": str(self.port), "CALLS": calls, ENV_SHIM: "native"})
        words, tests = ["./run", "-b", "mdb", script], self.directory / "tests"
        with open(self.directory / f"{script}.log", "w") as log:
            process = subprocess.Popen(
                words, cwd=tests, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            with process, suppress(subprocess.TimeoutExpired):
                try:
                    return process.wait(LONGEST)
                finally:
                    with suppress(ProcessLookupError):  # servers that a failed script has left
                        os.killpg(process.pid, signal.SIGKILL)
        return None


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_as_many_scripts_pass_with_the_links(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (tree / "tests/run").is_file():
        pytest.skip(f"{BUILT} names no source tree of OpenLDAP that is built")
    prefix = re.search(r"^prefix\s*=\s*(\S+)", (tree / "tests/Makefile").read_text(), re.MULTILINE)
    assert prefix
    originals, links = f"{prefix[1]}/sbin", tmp_path / "bin"
    ditseed("shims", links).ok()
    program = links / "ditseed-shim"
    head, _, _ = program.read_text().partition("from loader")
    program.write_text(head + LOGGED)
    paths = sorted((tree / "tests/scripts").glob("test*"))
    scripts = [path.name for path in paths if any(f"${tool}" in path.read_text() for tool in TOOLS)]
    before = Suite(tree, tmp_path / "originals", originals, 19010)
    after = Suite(tree, tmp_path / "links", f"{links}:{originals}", 19510)
    for suite in (before, after):
        suite.make()
    with ThreadPoolExecutor(2) as threads:
        with_originals, with_links = threads.map(
            lambda suite: {script: suite.status(script) for script in scripts}, (before, after)
        )
    passed = [script for script, status in with_originals.items() if status == 0]
    lost = [script for script in passed if with_links[script] != 0]
    calls = [path.read_text() for path in sorted(after.directory.glob("*.calls"))]
    with capsys.disabled():
        print(f"\n{tree.name}: {len(scripts)} scripts, {len(passed)} pass with the originals")
        print(f"{len(passed) - len(lost)} of these pass with the links, too; not: {', '.join(lost) or 'none'}")
        print(f"{len(calls)} scripts call a link; the others skip themselves, as their logs say")
        print(*(f"{count:5} {line}" for line, count in Counter("".join(calls).splitlines()).most_common()), sep="\n")
    assert passed
    assert not lost
