"""The directories that are measured: what they are on, and what they are called in the report."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from loader import child
from loader.errors import ToolFailed, UsageProblem
from loader.progress import Progress
from loader.server import tools
from loader.storage import files, held, mounts, survey, temporary
from loader.storage.survey import Facts


class Place(msgspec.Struct, frozen=True):
    """`kind`: of the file system. `layout`: of its logical volume (linear, striped), None where it is on none."""

    name: str
    directory: Path
    kind: str
    layout: str | None


def of(directories: Sequence[Path]) -> tuple[Place, ...]:
    """Named by their file systems; by mount point, too, where several have the same kind.

    Raises NoSuchPath, NotPermitted, ReadOnly, DirectoryUnsafe, UsageProblem.
    """
    if len(set(map(Path.absolute, directories))) < len(directories):
        raise UsageProblem(reason="a directory is given twice")
    found = [(path.absolute(), _looked_at(path)) for path in directories]
    kinds = Counter(_kind(facts) for _, facts in found)
    targets = Counter((_kind(facts), facts.mount.target) for _, facts in found)
    places = []
    for path, facts in found:
        name = _kind(facts)
        if kinds[name] > 1:
            alone = targets[name, facts.mount.target] == 1
            name = f"{name} on {facts.mount.target if alone else path}"
        places.append(Place(name, path, facts.mount.kind, _layout(facts)))
    return tuple(places)


def _looked_at(path: Path) -> Facts:
    with files.explained(path):
        if not path.is_dir():
            path.stat()
            raise UsageProblem(reason=f"{path} is not a directory")
        with held.opened(path) as opened:
            held.require_private(opened.status, path)
    files.require_writable(path)
    return survey.of(path)


def _kind(facts: Facts) -> str:
    layout = _layout(facts)
    return f"{facts.mount.kind}, {layout}" if layout else facts.mount.kind


def _layout(facts: Facts) -> str | None:
    if facts.volume is None:
        return None
    return "+".join(dict.fromkeys(one.kind for one in facts.volume.segments))


def made(name: str, kind: str, directory: Path) -> Place:
    """A file system that was made for this."""
    return Place(name, directory, kind, None)


# --- loop volumes ----------------------------------------------------------------------------------------------------
#
# File systems that are made for a bench, each on a loop device over a file of its own.


# Of mkfs.KIND: to say little, and to ask nothing.
OPTIONS = {
    **dict.fromkeys(("ext2", "ext3", "ext4"), ("-q", "-F")),
    **dict.fromkeys(("xfs", "btrfs", "f2fs", "nilfs2"), ("-q", "-f")),
    "jfs": ("-q",),
    "reiserfs": ("-q", "-f", "-f"),
}
KIND = "bench"  # of the temporary directories
KINDS = tuple(OPTIONS)


def require(kinds: Sequence[str]) -> None:
    """Raises UsageProblem for one that is unknown, given twice, or cannot be made here."""
    for kind in kinds:
        if kind not in OPTIONS:
            raise UsageProblem(reason=f"--fs {kind}: there are {', '.join(KINDS)}")
        if shutil.which(f"mkfs.{kind}") is None:
            raise UsageProblem(reason=f"--fs {kind}: mkfs.{kind} is not installed")
    if len(set(kinds)) < len(kinds):
        raise UsageProblem(reason="--fs: a file system is given twice")


@contextmanager
def volumes_made(kinds: Sequence[str], size: int, work: Path, progress: Progress) -> Iterator[tuple[Place, ...]]:
    """Mounted in `work`, for this process and its children alone; gone at the end. Raises UsageProblem."""
    sweep()
    with ExitStack() as stack:
        found = []
        for kind in kinds:
            with progress.step(f"make {kind}"):
                found.append(stack.enter_context(_one(kind, size, work)))
        yield tuple(found)


@contextmanager
def _one(kind: str, size: int, work: Path) -> Iterator[Place]:
    image, target = work / f"{kind}.img", work / kind
    with files.explained(image), files.creating(image, 0o600) as file:
        os.ftruncate(file.fileno(), size)
    target.mkdir(mode=0o700)
    with ExitStack() as stack:
        try:
            child.output([f"mkfs.{kind}", *OPTIONS[kind], str(image)])
            detach = partial(_detach, os.path.realpath(image))
            stack.callback(detach)  # once more: a signal may have come while it was being detached below
            device, name = _attached(image)
            stack.enter_context(mounts.mounted(target, "-t", kind, device))
            detach()  # while it is mounted, the kernel only notes that: it goes with the mount, even if we are killed
        except ToolFailed as error:
            raise UsageProblem(reason=f"--fs {kind}: {error}") from error
        yield made(f"{kind}, {name}", kind, target)


def _attached(image: Path) -> tuple[str, str]:
    """The loop device, and what it is: past the page cache, where the file system of `image` has that."""
    command = ("losetup", "--find", "--show")
    answer = child.ask([*command, "--direct-io=on", str(image)])
    if answer.status == 0:
        return answer.out.decode().strip(), "loop device"
    return child.output([*command, str(image)]).decode().strip(), "cached loop device"


def sweep() -> None:
    """Detach devices of runs that were killed before they had mounted them. Their files are gone by now."""
    _detach(" (deleted)")


def _detach(end: str) -> None:
    """Devices over files of a bench whose path ends like that, as the kernel tells it."""
    for told in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            file = told.read_text().strip()
            if f"/{temporary.PREFIX}{KIND}-" in file and file.endswith(end):
                child.ask(["losetup", "--detach", f"/dev/{told.parts[3]}"])


# --- installation ----------------------------------------------------------------------------------------------------
#
# The OpenLDAP that is measured: this host's, or one in a root directory of its own, which is entered by chroot.


SUFFIX = "dc=example,dc=com"
BACKENDS = ("mdb", "bdb", "hdb")
INDEXES = ("objectClass,entryUUID,entryCSN eq", "uid,cn,sn,mail eq")
_SCHEMAS = ("core", "cosine", "inetorgperson")
# Debian, the Red Hat family, what `make install` and Symas take.
_SCHEMA_PLACES = (
    *("/etc/ldap/schema", "/etc/openldap/schema"),
    *("/usr/local/etc/openldap/schema", "/opt/symas/etc/openldap/schema"),
)
_MODULE_PLACES = (
    *("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap", "/usr/libexec/openldap"),
    *("/usr/local/libexec/openldap", "/opt/symas/lib/openldap"),
)
# With the C library's, where programs of an installation are.
_PATH = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/opt/symas/sbin:/usr/bin:/bin"
# Below the root directory: a tmpfs is mounted over it, so that nothing is written to what is there.
_MEETING = Path("tmp")
_WORK, _DATABASE = _MEETING / "work", _MEETING / "database"
_ENTRY = 8192  # bytes of maxsize that an entry gets: plenty
_LEAST = 64 << 20
_VERSION = re.compile(r"slapd\w* (?P<number>\d+(?:\.\d+)+)")


class Installation(msgspec.Struct, frozen=True):
    """`root`: "/" for this host's."""

    root: Path = Path("/")

    @property
    def is_here(self) -> bool:
        return self.root == Path("/")

    def require(self) -> None:
        """Root runs what is there. Raises NoSuchPath, DirectoryUnsafe, UsageProblem."""
        with files.explained(self.root), held.opened(self.root) as opened:
            held.require_private(opened.status, self.root)
        if not (self.root / _MEETING).is_dir():
            raise UsageProblem(reason=f"{self.root} is no root directory: it has no /{_MEETING}")

    @contextmanager
    def entered(self, work: Path) -> Iterator[None]:
        """`work` is seen there meanwhile. Raises ToolFailed."""
        if self.is_here:
            yield
            return
        meeting = (self.root / _MEETING, "-t", "tmpfs", "-o", "mode=0755", "tmpfs")
        with mounts.mounted(*meeting):
            for one in (_WORK, _DATABASE):
                (self.root / one).mkdir()
            with mounts.mounted(self.root / _WORK, "--bind", str(work)):
                yield

    @contextmanager
    def seeing(self, directory: Path) -> Iterator[None]:
        """Once it is entered: `directory` is seen there meanwhile, for a database."""
        if self.is_here:
            yield
            return
        with mounts.mounted(self.root / _DATABASE, "--bind", str(directory)):
            yield

    def names(self, work: Path, directory: Path) -> tuple[str, str]:
        """What the two are called there."""
        return (str(work), str(directory)) if self.is_here else (f"/{_WORK}", f"/{_DATABASE}")

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Raises ToolMissing."""
        if self.is_here:
            return tools.server_tool(tool, *arguments)
        return ["chroot", str(self.root), "/usr/bin/env", _PATH, tool, *arguments]

    def version(self) -> str:
        """Raises ToolMissing, UsageProblem."""
        answer = child.ask(self.command("slapd", "-VV"))
        found = next(filter(None, map(_VERSION.search, answer.words)), None)
        if found is None:
            said = "; ".join(answer.words[-2:]) or f"exit status {answer.status}"
            raise UsageProblem(reason=f"{self.root}: slapd -VV does not tell its version: {said}")
        return found["number"]

    def configuration(self, backend: str, directory: str, entries: int) -> str:
        """A slapd.conf. `directory`: as slapd sees it. Raises UsageProblem."""
        schemas = self._first(_SCHEMA_PLACES, "core.schema")
        if schemas is None:
            raise UsageProblem(reason=f"{self.root}: no core.schema is in {', '.join(_SCHEMA_PLACES)}")
        lines = [f"include {schemas}/{name}.schema" for name in _SCHEMAS]
        modules = self._first(_MODULE_PLACES, f"back_{backend}.*")
        if modules:  # else it is built into slapd, or slapd says that it has none
            lines += [f"modulepath {modules}", f"moduleload back_{backend}"]
        lines += [f"database {backend}", f'suffix "{SUFFIX}"', f'directory "{directory}"']
        lines += [f"index {one}" for one in INDEXES]
        lines += [f"maxsize {max(_LEAST, entries * _ENTRY)}"] if backend == "mdb" else []
        return "\n".join((*lines, ""))

    def _first(self, places: tuple[str, ...], pattern: str) -> str | None:
        return next((one for one in places if [*self.root.glob(f"{one[1:]}/{pattern}")]), None)
