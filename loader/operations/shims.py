"""The program of the links slapadd, slapcat and slapindex, which `ditseed shims` makes. The original of a link is the
tool of slapd with the same name.

A link does the work itself if the native core is proven to give the same result as the original. Otherwise, it runs the
original: for other options, unproven configurations, slapadd into a database with entries, slapindex while slapd runs,
and input with an entry that is not accepted. Until then, the link has not changed the database, so messages, exit
status and stored entries are those of the original. At import, this module needs only the standard library, so that a
call of the original starts quickly.
"""

from __future__ import annotations

import getopt
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from loader import defaults, plain
from loader.defaults import ENV_SHIM

if TYPE_CHECKING:
    from pathlib import Path

    from loader.config import Config, Database
    from loader.storage import held

# Tool -> all its options (slapcommon.c), and the options that the native core supports.
_TOOLS = {
    "slapadd": ("b:cd:f:F:gj:l:n:o:qsS:uvw", "bcdfFglnoqsSw"),
    "slapcat": ("a:b:cd:f:F:gH:l:n:o:s:v", "bdfFglnoHs"),
    "slapindex": ("b:cd:f:F:gn:o:qtv", "bcdfFgnqt"),
}
_O_OPTIONS = {
    # schema-check=no is not supported: unlike with -s, slapadd 2.5 then stores no structuralObjectClass.
    "slapadd": re.compile("schema-check=yes|value-check=(yes|no)"),
    "slapcat": re.compile("ldif[-_]wrap=(no|[0-9]{1,6})"),
}
_SUBTREE = re.compile(r"ldap:///([^?]*)(\?\?(sub)?(\?(\(objectClass=\*\))?)?)?", re.IGNORECASE)
_SMALL = 1 << 20  # bytes of LDIF or database; the original finishes smaller inputs before the native core has started
_MEMORY = 384 << 20  # bytes for sorting, so that a link uses less than half a gigabyte
_MOST_REJECTS = 100_000  # maximum number of rejected entries with -c; if there are more, the original loads all entries
_LINE = re.compile(rb"(slapadd: .*?\bline[= ])([0-9]+)")
_ORPHAN = re.compile("its parent .* (is missing|was rejected)$")
_WRAP = 78  # columns (LDIF_LINE_WIDTH of OpenLDAP)
_FILES = "data.mdb", "lock.mdb"
_PROGRAM = "ditseed-shim"
_SCRATCH = ".ditseed-slapadd-"  # prefix of the scratch directory in the database directory: publishing is a rename
# The compiled-in paths of slapd.d and slapd.conf, in the program file of slapd.
_DEFAULTS = re.compile(rb"(/[!-~]+/slapd\.d)\0"), re.compile(rb"(/[!-~]+/slapd\.conf)\0")


class Handed(Exception):
    """Raised if the original has to do the work. Its text is the reason."""


class Call:
    """A command line. `options`: letter -> value; the last value counts, as in the tools. `directory`: the database
    directory, once the database is known. `note`: the original's message about the choice of the database."""

    def __init__(self, tool: str, arguments: list[str]) -> None:
        self.tool, self.arguments = tool, arguments
        self.directory: Path | None = None
        self.note = ""
        self.pairs: list[tuple[str, str]] = []
        self.operands: list[str] = []
        self.is_usage_error = False
        try:
            self.pairs, self.operands = getopt.gnu_getopt(arguments, _TOOLS[tool][0])
        except getopt.GetoptError:
            self.is_usage_error = True
        self.options = {option[1:]: value for option, value in self.pairs}
        self.is_native_only = os.environ.get(ENV_SHIM) == "native"

    def require_native(self) -> None:
        """Raises Handed if the native core does not support the command line."""
        options, o_options = self.options, _O_OPTIONS.get(self.tool)
        has_operands = self.operands and self.tool != "slapindex"
        if self.is_usage_error or has_operands or {"b", "n"} <= options.keys():
            raise Handed("its arguments")
        for letter, value in ((option[1:], value) for option, value in self.pairs):
            if letter not in _TOOLS[self.tool][1] or (letter == "d" and value != "0"):  # -d 0: no library messages
                raise Handed(f"option -{letter}")
            if letter == "o" and not (o_options and o_options.fullmatch(value)):
                raise Handed(f"option -o {value}")
        if {"f", "F"} <= options.keys():
            raise Handed("both -f and -F")
        if self.number == 0 or options.get("b", "").replace(" ", "").lower() == "cn=config":
            raise Handed("cn=config")
        if not re.fullmatch("[0-9]{1,4}", options.get("S", "0")) or int(options.get("S", "0")) > 4095:
            raise Handed("option -S")
        if not _SUBTREE.fullmatch(options.get("H", "ldap:///")) or {"H", "s"} <= options.keys():
            raise Handed("option -H")
        if self.set_by_o("value-check") == "yes" and "q" in options:
            raise Handed("option -o value-check")

    @property
    def number(self) -> int | None:
        text = self.options.get("n")
        if text is not None and not re.fullmatch("[0-9]{1,5}", text):
            raise Handed("option -n")
        return None if text is None else int(text)

    @property
    def subtree(self) -> str | None:
        """The DN of -s or -H; None without them."""
        if "H" in self.options:
            from urllib.parse import unquote

            match = _SUBTREE.fullmatch(self.options["H"])
            return unquote(match[1]) if match and match[1] else None
        return self.options.get("s")

    def set_by_o(self, name: str) -> str | None:
        """Returns the last value that -o gives to a name."""
        settings = (value.replace("_", "-").partition("=") for option, value in self.pairs if option == "-o")
        return {key: value for key, _, value in settings}.get(name)

    def print(self, text: str) -> None:
        os.write(2, plain.printable(f"{self.tool}: {text}").encode("utf-8", "surrogateescape") + b"\n")

    def print_note(self) -> None:
        with suppress(OSError):  # stderr may be closed
            os.write(2, self.note.encode())

    def program(self, path: str) -> str:
        """Returns argv[0] for the original at `path`. If that is slapd, argv[0] selects the tool."""
        return path if os.path.basename(path) == self.tool else self.tool

    def words(self, without: str) -> list[str]:
        """Returns the options as words. Omits the letters in `without`."""
        words: list[str] = []
        for option, value in self.pairs:
            if option[1:] not in without:
                words += [option, value] if f"{option[1:]}:" in _TOOLS[self.tool][0] else [option]
        return words


def main() -> NoReturn:
    """Runs the tool by whose name the link was called, and ends the process."""
    tool = os.path.basename(sys.argv[0])
    if tool not in _TOOLS:
        os.write(2, b"ditseed: a link of `ditseed shims` must be called slapadd, slapcat or slapindex\n")
        os._exit(1)
    os.environ.pop(defaults.ENV_TOOLS, None)  # ignored: a link replaces the tool of this host
    call = Call(tool, sys.argv[1:])
    try:
        status = _run(call)
    except KeyboardInterrupt as stop:
        number = getattr(signal, str(stop), signal.SIGINT)
        if tool != "slapcat":  # like the originals: slapadd and slapindex have no signal handlers
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        call.print(f"the output is incomplete: {signal.Signals(number).name}")
        status = 1
    os._exit(status)


def _run(call: Call) -> int:
    try:
        if os.environ.get(ENV_SHIM) == "original":
            raise Handed(f"{ENV_SHIM}=original")
        call.require_native()
        return {"slapadd": _slapadd, "slapcat": _slapcat, "slapindex": _slapindex}[call.tool](call)
    except Handed as reason:
        return _original(call, str(reason))
    except OSError as error:  # such as a full disk while a pipe is read
        call.print(f"{error.filename or 'LDIF'}: {error.strerror}")
        return 1


def make_links(directory: Path) -> None:
    """Writes the program of the links into a directory, and a hard link to the program for each tool. Raises
    DirectoryUnsafe if another account could replace these files; UsageProblem, OSError."""
    from loader.errors import UsageProblem
    from loader.storage import files, held

    held.make_directories(directory, 0o755)
    files.require_safe(directory)
    for tool in _TOOLS:
        if os.path.lexists(directory / tool) and not defaults.is_link(str(directory / tool)):
            raise UsageProblem(reason=f"{directory / tool} is not a link of ditseed: give a directory of its own")
    with held.opened(directory) as open_dir:
        held.require_private(open_dir.status, directory)
        files.write_durably(open_dir.path / _PROGRAM, _link_program(), 0o755)
        for tool in _TOOLS:
            open_dir.remove(tool)
            open_dir.link(_PROGRAM, tool)


def _link_program() -> bytes:
    """Returns the program of the links. It runs this installation of ditseed, and ignores PYTHONPATH and the like."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(defaults.__file__)))
    lines = (
        f"#!{sys.executable} -I",
        f"{defaults.SHIM_MARK.decode()}: slapadd, slapcat or slapindex, whichever name it is called by.",
        "import sys",
        f"sys.path.insert(0, {root!r})",
        "from loader.operations.shims import main",
        "main()",
    )
    return os.fsencode("\n".join(lines) + "\n")


# --- calls of the original -------------------------------------------------------------------------------------------


def _original(call: Call, reason: str) -> int:
    """Replaces this process by the original; or, without DITSEED_SHIM=original, runs it as a child: slapcat without -v,
    because it can lose data, and the other tools if this account is root, because they leave files of root."""
    path = defaults.find_tool(call.tool)
    if path is None:
        call.print(f"the original is not in PATH ({reason}, so ditseed does not do this itself)")
        return 1
    if "v" in call.options:
        call.print(f"{path} does this: {reason}")
    if os.environ.get(ENV_SHIM) != "original" and not call.is_usage_error:
        if call.tool == "slapcat" and "v" not in call.options:
            return _relayed(call, path)
        if call.tool != "slapcat" and os.geteuid() == 0:
            return _owned(call, path)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals; the original would inherit that
        signal.signal(number, signal.SIG_DFL)
    return os.execv(path, [call.program(path), *call.arguments])


def _relayed(call: Call, path: str) -> int:
    """Runs slapcat, and writes its output to stdout or the file of -l. slapcat itself may end with 0 after a failed
    write or a signal, and empties the file of -l before it reads the configuration."""
    import subprocess

    from loader import child

    child.handle_signals()
    command = [call.program(path), *call.words(without="l"), *call.operands]
    with subprocess.Popen(command, executable=path, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        try:
            piece = process.stdout.read(1 << 16)
            output = _output(call) if piece or process.wait() == 0 else 1
            while piece:
                _write(output, piece)
                piece = process.stdout.read(1 << 16)
            status = process.wait()
        except OSError as error:
            process.kill()
            call.print(f"error writing output. ({error.strerror})")
            return 1
        except KeyboardInterrupt:
            process.kill()
            raise
    return _status(status)


def _status(returncode: int) -> int:
    """Returns the exit status that a shell shows for a process."""
    return returncode if returncode >= 0 else 128 - returncode


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _output(call: Call) -> int:
    """Returns the descriptor of stdout, or of the emptied file of -l. Raises OSError."""
    if "l" not in call.options:
        return 1
    from pathlib import Path

    from loader.storage import files

    with files.creating(Path(call.options["l"])) as file:
        return os.dup(file.fileno())


def _owned(call: Call, path: str) -> int:
    """Runs the original as root, and gives its new files to the owner of the database directory. Does not run it if
    that owner has put a link in place of a file: the original would follow the link."""
    import subprocess

    from loader import child
    from loader.errors import LoaderError
    from loader.storage import held

    with suppress(Handed):
        if call.directory is None:
            _database(call)
    if call.directory is not None:
        try:
            with held.opened(call.directory) as open_dir:
                for name in [name for name in _FILES if open_dir.is_foreign and open_dir.exists(name)]:
                    with open_dir.pinned(name, written=True):
                        pass
        except (LoaderError, OSError) as error:
            call.print(str(error))
            return 1
    child.handle_signals()
    with subprocess.Popen([call.program(path), *call.arguments], executable=path) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt as stop:
            process.send_signal(getattr(signal, str(stop)))
            process.wait()
            raise
    if call.directory is not None:
        _give_files(call, call.directory)
    return _status(status)


def _give_files(call: Call, directory: Path) -> None:
    """Gives data.mdb and lock.mdb, if they belong to root, to the owner of the directory."""
    from loader.errors import LoaderError
    from loader.storage import held
    from loader.storage.files import Owner

    try:
        with held.opened(directory) as open_dir:
            owner = Owner.from_status(open_dir.status)
            changed = []
            for name in [name for name in _FILES if owner.uid and open_dir.exists(name)]:
                with held.closing_descriptor(open_dir.open(name)) as descriptor:
                    if os.fstat(descriptor).st_uid == 0:
                        owner.apply_to(descriptor)
                        changed.append(name)
    except (LoaderError, OSError) as error:
        call.print(f"the owner of the files stays root: {error}")
        return
    _print_owner(call, directory, changed, owner.uid)


def _print_owner(call: Call, directory: Path, names: Sequence[str], uid: int) -> None:
    from loader.storage import files

    if names:
        call.print(f"{' and '.join(names)} in {directory} belong to {files.account_name(uid)}, not to root")


# --- the database ----------------------------------------------------------------------------------------------------


def _database(call: Call) -> tuple[Config, Database]:
    """Returns the configuration, and the database that the tool would choose. From then on, signals unwind the stack.
    Raises Handed."""
    from pathlib import Path

    from loader import child, dn
    from loader import config as configs
    from loader.errors import LoaderError
    from loader.server import configuration

    name = call.options.get("F") or call.options.get("f") or _default_configuration()
    try:
        config = configuration.read(Path(name))
        base, number = call.options.get("b", call.subtree), call.number
        if number is not None or base is None:
            number = _default_number(call, config) if number is None else number
            matches = [each for each in config.databases if each.entry_dn.startswith(f"olcDatabase={{{number}}}")]
        else:
            suffixes = ((suffix, each) for each in config.databases for suffix in each.suffixes)
            above = [(dn.key(suffix).count(","), each) for suffix, each in suffixes if dn.is_below(base, suffix)]
            deepest = max((depth for depth, _ in above), default=0)
            matches = [each for depth, each in above if depth == deepest]
        if len(matches) != 1 or matches[0].backend != "mdb" or matches[0].directory is None:
            raise Handed("not one mdb database")
        database = matches[0]
        call.directory = database.directory
        reader = config.reader(database.entry_dn)
        if reader.flag("olcHidden", False) or reader.flag("olcDisabled", False):
            raise Handed("the database is hidden or disabled")
        if configs.is_subordinate(config, database) or (
            "g" not in call.options and configs.subordinates(config, database)
        ):
            raise Handed("glued databases")
    except LoaderError as error:
        raise Handed(str(error)) from error
    child.handle_signals()
    return config, database


def _default_number(call: Call, config: Config) -> int:
    """Returns the number of the database for a call without -n and -b: the first database after cn=config that is
    neither cn=Monitor nor subordinate (slapcommon.c). Even a database without a suffix has a number."""
    matches = (re.match(r"olcDatabase=\{([0-9]+)\}(?!monitor,)", name, re.IGNORECASE) for name, _ in config.entries)
    numbers = {int(match[1]): bool(config.values(match.string, "olcSubordinate")) for match in matches if match}
    first = min((number for number, is_subordinate in numbers.items() if number and not is_subordinate), default=1)
    if first > 1 and "d" not in call.options and not any(numbers[number] for number in numbers if number < first):
        call.note = f"The first database does not allow {call.tool}; using the first available one ({first})\n"
    return first


def _default_configuration() -> str:
    """Returns the compiled-in path of slapd.d, or of slapd.conf if there is no slapd.d. Raises Handed, OSError."""
    path = defaults.find_tool("slapcat")
    if path is not None:
        with open(path, "rb") as file:
            program = file.read()
        for pattern in _DEFAULTS:
            match = pattern.search(program)
            if match and os.path.exists(match[1]):
                return os.fsdecode(match[1])
    raise Handed("neither -f nor -F")


# --- slapadd ---------------------------------------------------------------------------------------------------------


def _slapadd(call: Call) -> int:
    is_pipe, path = _ldif(call)
    config, database = _database(call)
    import time
    from pathlib import Path

    from loader import log
    from loader.errors import LoaderError
    from loader.operations.build import BuildOptions, native
    from loader.operations.publish import TargetDatabase
    from loader.progress import Progress
    from loader.run.steps import open_run
    from loader.storage import held
    from loader.storage.files import Owner

    directory, options = database.directory, call.options
    assert directory is not None
    target = TargetDatabase(config, database, directory)
    try:
        target.require_free()
        if is_pipe and not _spooled(directory) and not call.is_native_only:
            raise Handed("little input")
        options_of_build = BuildOptions(
            config.path,
            inputs=(Path(path),),
            suffix=database.suffix,
            glue=False,
            memory=_MEMORY,
            write_context="w" in options,
            server_id=int(options.get("S", "0")),
            check_values=call.set_by_o("value-check") == "yes",
            check_schema="s" not in options,
            file_urls=True,
            as_slapadd=True,
            max_rejects=_MOST_REJECTS if "c" in options else 0,
            now=time.strftime("%Y%m%d%H%M%SZ", time.gmtime()),
        )
        log.setup(-1)
        has_meter = os.isatty(2) and not is_pipe and "d" not in options
        progress = Progress("auto" if has_meter else "none")
        with (
            _scratch(directory) as scratch,
            open_run(scratch.path / "run", "slapadd", {}, progress, resumable=False) as run,
        ):
            publish = native.prepared(options_of_build, run, target)
            loaded = run.catalogue.facts_of("load", native.NativeLoaded)
            rejected = (loaded and loaded.rejections) or []
            if any(file != path or _ORPHAN.match(reason) for file, _, _, reason in rejected):
                call.arguments = call.words(without="q")  # with -q, a duplicate would damage the database
                raise Handed("a parent is missing, or a record of an included file is not accepted")
            rest = _only(path, {line or 0 for _, line, _, _ in rejected}, directory) if rejected else None
            call.print_note()
            publish()
    except LoaderError as error:
        raise Handed(str(error)) from error
    try:
        with held.opened(directory) as open_dir:
            owner = Owner.from_status(open_dir.status)
            # Without a lock.mdb, slapcat run by root would create one that slapd could not open.
            with held.closing_descriptor(open_dir.open_or_create("lock.mdb", database.mode)) as descriptor:
                owner.apply_to(descriptor)
    except LoaderError as error:  # the entries are loaded, so the original must not load them again
        call.print(str(error))
        return 1
    if os.geteuid() == 0 and owner.uid:
        _print_owner(call, directory, _FILES, owner.uid)
    if has_meter:
        os.write(2, b"Closing DB...\n")
    return 0 if rest is None else _added_by_original(call, *rest)


@contextmanager
def _scratch(directory: Path) -> Iterator[held.Directory]:
    """Creates a directory for the new database in `directory`, and removes such directories of killed links."""
    import fcntl

    from loader.storage import files, held

    with held.opened(directory) as parent:
        with suppress(OSError):
            # Until the new directory is locked, the parent is locked, so that no other link removes the new directory.
            fcntl.flock(parent.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            files.sweep(parent.path, _SCRATCH)
        with held.scratch(directory, _SCRATCH) as scratch:
            fcntl.flock(scratch.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(parent.descriptor, fcntl.LOCK_UN)
            yield scratch


def _only(path: str, lines: set[int], directory: Path) -> tuple[int, dict[bytes, bytes]]:
    """Returns a nameless file with the records that begin at `lines` of the LDIF. Also maps the line of each record in
    that file to the line that slapadd names for this record in the LDIF: the first after the previous record."""
    from loader.storage import files

    named = dict[bytes, bytes]()
    written, after, is_inside, is_comment = 0, 1, False, False
    with open(path, "rb") as ldif, os.fdopen(files.nameless(directory), "w+b") as copy:
        for number, line in enumerate(ldif, 1):
            is_comment = line[:1] == b"#" or (is_comment and line[:1] == b" ")
            if not line.strip(b"\r\n"):
                if is_inside:
                    after, is_inside = number + 1, False
                    if number > max(lines):
                        break
                continue
            if not is_inside and not is_comment:
                is_inside, is_wanted = True, number in lines
                if is_wanted:
                    copy.write(b"\n" if written else b"")
                    written += 1 if written else 0
                    named[b"%d" % (written + 1)] = b"%d" % after
            if is_inside and is_wanted:
                copy.write(line.rstrip(b"\r\n") + b"\n")
                written += 1
        copy.seek(0)
        return os.dup(copy.fileno()), named


def _added_by_original(call: Call, rest: int, named: dict[bytes, bytes]) -> int:
    """Runs the original with -c on the records that the native core did not accept: messages and exit status are those
    of the original. Omits -q, with which each duplicate would lose a batch of entries and damage the database."""
    import subprocess

    path = defaults.find_tool(call.tool)
    assert path is not None  # slapd's tools exist: they have printed the configuration
    command = [call.program(path), *call.words(without="lq")]
    with subprocess.Popen(command, executable=path, stdin=rest, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            _write(2, _LINE.sub(lambda match: match[1] + named.get(match[2], match[2]), line))
        status = process.wait()
    call.print(f"{len(named)} of the records were given to {path}, because they are not valid; all others are loaded")
    return _status(status)


def _ldif(call: Call) -> tuple[bool, str]:
    """Returns whether the input is a pipe, and its path. Raises Handed."""
    path = os.path.abspath(call.options["l"]) if "l" in call.options else "/dev/stdin"
    try:
        status = os.stat(path) if "l" in call.options else os.fstat(0)
        is_regular = stat.S_ISREG(status.st_mode)
        if not is_regular and ("l" in call.options or not stat.S_ISFIFO(status.st_mode)):
            raise Handed("the input is neither a file nor a pipe")
        if is_regular and "l" not in call.options and os.lseek(0, 0, os.SEEK_CUR) != 0:
            raise Handed("a part of stdin has been read already")
    except OSError as error:
        raise Handed(str(error)) from error
    if is_regular and status.st_size < _SMALL and not call.is_native_only:
        raise Handed("little input")
    return not is_regular, path


def _spooled(directory: Path) -> bool:
    """Copies the LDIF of a pipe into a nameless file, and makes this file stdin, so that the original can read from the
    beginning. Returns whether the LDIF is large enough for the native core. Raises LoaderError before the first read;
    OSError if the disk is full."""
    from loader.storage import files

    with files.explained(directory):
        spool = files.nameless(directory)
    while piece := os.read(0, 1 << 20):
        _write(spool, piece)
    size = os.lseek(spool, 0, os.SEEK_CUR)
    os.lseek(spool, 0, os.SEEK_SET)
    os.dup2(spool, 0)
    return size >= _SMALL


# --- slapcat ---------------------------------------------------------------------------------------------------------


def _slapcat(call: Call) -> int:
    _, database = _database(call)
    from loader import dn, log
    from loader.errors import LoaderError, MdbDamaged, NoSpace, ReaderGone, SystemFailed
    from loader.progress import Meter
    from loader.sources import mdb
    from loader.sources.mdb import LdifFormat, Part

    directory, base = database.directory, call.subtree
    assert directory is not None
    wrap = call.set_by_o("ldif-wrap") or "0"
    columns = 0 if wrap == "no" else int(wrap) or _WRAP
    if columns == 1:
        raise Handed("option -o ldif-wrap=1")
    if base is not None and dn.key(base) in map(dn.key, database.suffixes):
        base = None
    log.setup(-1)
    try:
        part = Part(directory, base)
        mdb.require_database(directory)
        if base is not None and not mdb.find(Part(directory), [base]):
            raise Handed("there is no such entry")
        output = _output(call)
        call.print_note()
        mdb.stream(part, output, defaults.processors(), Meter("read"), LdifFormat(as_slapcat=columns))
        os.close(output)
    except OSError as error:
        call.print(f"error writing output. ({error.strerror})")
        return 1
    except (ReaderGone, NoSpace, SystemFailed):
        call.print("error writing output.")
        return 1
    except MdbDamaged as error:
        call.print(str(error))
        return 1
    except LoaderError as error:
        raise Handed(str(error)) from error
    return 0


# --- slapindex -------------------------------------------------------------------------------------------------------


def _slapindex(call: Call) -> int:
    config, database = _database(call)
    from loader import indexes, log
    from loader.errors import LoaderError
    from loader.mdb import meta
    from loader.operations.verify import core_target_of
    from loader.progress import Meter
    from loader.sinks import changing
    from loader.storage import holders

    directory = database.directory
    assert directory is not None
    configured = indexes.configured(database.indexes)
    keys = {name.lower() for name in call.operands} or configured.keys()
    if not keys or not keys <= configured.keys():
        raise Handed("an attribute without an index")
    log.setup(-1)
    try:
        size = meta.data_file(directory).stat().st_blocks * 512
        if size < _SMALL and not call.is_native_only:
            raise Handed("a small database")
        holders.require_unused(directory)
        target = core_target_of(config, database, directory)
        names = tuple(index.attribute for key, index in configured.items() if key in keys)
        with _scratch(directory) as scratch:
            limits = defaults.Resources(_MEMORY, defaults.processors(), scratch.path)
            changing.rebuild(directory, target, names, limits, Meter("index"))
        call.print_note()
    except FileNotFoundError as error:
        raise Handed("there is no database") from error
    except LoaderError as error:
        raise Handed(str(error)) from error
    return 0
