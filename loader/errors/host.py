"""Of the command line, files, tools and the run itself."""

from __future__ import annotations

import errno
import os

from loader.errors.base import LoaderError


class UsageProblem(LoaderError):
    code, exit_status = "usage", 3
    message = "{reason}"
    hint = "--help after the verb lists its options, with examples."


NO_SECRETS = (
    "A password never stands on a command line, where every user of the host can read it (ps): put it into a file and "
    "give -y FILE, or have it asked for with -W"
)


class NotPermitted(LoaderError):
    code, exit_status = "storage.not_permitted", 4
    message = "no permission to {action} {path}"
    hint = "Run as root (sudo), or as the user who owns it ({owner})."


class NoSuchPath(LoaderError):
    code, exit_status = "storage.no_such_path", 5
    message = "{path}: no such file or directory"
    hint = "Check the path and its spelling; nothing was changed."


FULL = "no space left on its file system"  # a lack of unknown size
FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


class NoSpace(LoaderError):
    """lack: how much is needed and how much there is, or FULL."""

    code, exit_status = "storage.no_space", 6
    message = "{path}: {lack}"
    hint = "Free space on that file system, or put the files elsewhere; nothing was changed."


class ReadOnly(LoaderError):
    code, exit_status = "storage.read_only", 15
    message = "{path} is on a file system that is mounted read-only"
    hint = (
        "Choose a place that can be written, or remount it: mount -o remount,rw. If it was writable before, see dmesg: "
        "the kernel may have switched it after a disk error."
    )


class OutputNotEmpty(LoaderError):
    """made_by: the verb whose output may be continued or replaced there."""

    code, exit_status = "storage.not_empty", 16
    message = "{path} is not empty, and what it holds was not written by `ditseed {made_by}`"
    hint = "Give -o a new or an empty directory; nothing was changed."


class ToolMissing(LoaderError):
    code, exit_status = "tool.missing", 7
    message = "{tool} is not installed, or not in PATH"
    hint = "Install {tool}, or add its directory to PATH. OpenLDAP's are in Debian's slapd and ldap-utils."


class ToolUnreachable(LoaderError):
    code, exit_status = "tool.unreachable", 102
    message = "{tool} runs as {account}, which may not enter {place}"
    hint = "Put a {tool} first in PATH that {account} may run, or let it pass: chmod o+x {place}."


class ToolFailed(LoaderError):
    code, exit_status = "tool.failed", 8
    message = "{tool} ended with status {status}: {reason}"
    hint = "Correct what {tool} reports (the message is its last output), then run the same command again."


class Locked(LoaderError):
    code, exit_status = "run.locked", 9
    message = "{path} is in use by another ditseed (process {pid})"
    hint = "Wait until it has finished, or end that process; the lock ends with it."


class PackageMissing(LoaderError):
    """extra: of ditseed, that has it. packages: all of that extra."""

    code, exit_status = "package.missing", 107
    message = "{place} needs the Python package {package}, which is not installed"
    hint = "Install it where ditseed is: `pip install 'ditseed[{extra}]'`, or what that extra consists of: {packages}."


class RemoteFailed(LoaderError):
    """advice: what helps against this one."""

    code, exit_status = "remote.failed", 108
    message = "{place}: {reason}"
    hint = "{advice}"


class RemoteLocked(LoaderError):
    code, exit_status = "remote.locked", 109
    message = "{place} is in use by a ditseed on {host} (process {pid}) since {made}"
    hint = (
        "Wait until it has finished. If that process is gone for good, the lock lapses {lapse} after its last renewal. "
        "To go on earlier, remove {place}/{name}, and run the same command again."
    )


class RemoteFull(LoaderError):
    code, exit_status = "remote.full", 115
    message = "{place}: the server is full ({lack})"
    hint = (
        "Remove old backups with `ditseed backup prune`, or free space on the server, then run the same command again: "
        "no backup there has changed."
    )


class RemovalRefused(LoaderError):
    code, exit_status = "remote.removal_refused", 116
    message = "{place}: the server lets this account remove nothing: {reason}"
    hint = "Run `ditseed backup prune` with an account that may remove files there. Backups are taken all the same."


class RunMismatch(LoaderError):
    code, exit_status = "run.mismatch", 10
    message = "{path} holds a run with other options ({differences})"
    hint = "Give the options of that run to resume it, --restart to start over, or another --run-dir."


class NoRun(LoaderError):
    code, exit_status = "run.none", 17
    message = "{path}: no seeding was started there, or its state is kept elsewhere"
    hint = "Give the options of the `replica seed` command: --config or --consumer, -b, --run-dir."


class StepTimeout(LoaderError):
    code, exit_status = "run.timeout", 12
    message = "step {step} made no progress for {silent} (allowed {allowed}: {why})"
    hint = "The same command resumes here; --timeout {step}=SECONDS allows more time."
    hint_without_run = "The same command starts over."


class SystemFailed(LoaderError):
    code, exit_status = "storage.failed", 13
    message = "{path}: {reason}"
    hint = "The operating system reported this error. Check the disk (dmesg), then run the same command again."


def of_system(error: OSError, about: object) -> SystemFailed:
    """`about`: what failed if the system names no file."""
    is_named = isinstance(error.filename, str | bytes)  # a number for os.listdir(DESCRIPTOR)
    path = os.fsdecode(error.filename) if is_named else about
    return SystemFailed(path=path, reason=error.strerror or error)


class LibldapMissing(LoaderError):
    code, exit_status = "tool.no_libldap", 96
    message = "python-ldap and libldap, which ditseed needs, cannot be loaded: {reason}"
    hint = (
        "Install the distribution's python3-ldap; a virtual environment sees it when it was made with "
        "--system-site-packages. docs/installation.md has more."
    )


class NotInstalled(LoaderError):
    code, exit_status = "package.incomplete", 105
    message = "this installation of ditseed is not complete: {reason}"
    hint = "In a checkout, run bin/setup, or wait until it has finished; elsewhere, install ditseed again."


class CatalogueDamaged(LoaderError):
    code, exit_status = "run.damaged", 14
    message = "{path}: the catalogue of this run cannot be read: {reason}"
    hint = "Start over with --restart. If that fails too, check the disk."


class ChangedSince(LoaderError):
    """What a finished run published is not what is there now."""

    code, exit_status = "run.changed_since", 87
    message = (
        "this command made {path} on {finished}, and another process has written to it since "
        "({then} entries then, {now} now); nothing was changed"
    )
    hint = "If slapd uses it, this is expected. To make it again, stop slapd and add --restart (and --replace)."


class DirectoryUnsafe(LoaderError):
    """reason: who else could put files or links there."""

    code, exit_status = "storage.directory_unsafe", 18
    message = "{path} {reason}"
    hint = (
        "ditseed keeps its own files only in directories in which no other account can create files. If you ran "
        "ditseed under another account before, use that account again, or remove the directory. For --run-dir, "
        "--tmp, TMPDIR and similar settings, give a directory that the present account owns and that no other account "
        "can write to; /tmp, with its sticky bit, will do for --tmp and TMPDIR."
    )


class FileUnsafe(LoaderError):
    """kind: what stands in the place of a regular file."""

    code, exit_status = "storage.file_unsafe", 19
    message = "{path} is {kind}, where a regular file belongs"
    hint = "ditseed wrote nothing to it. Find out who created it, remove it, and run the same command again."


class StripesImpossible(LoaderError):
    code, exit_status = "storage.stripes", 121
    message = "no volume can be striped like that: {reason}"
    hint = "Choose another --stripe-size, --extent-size or --stripes, or leave them out; nothing was changed."


class DisksUnequal(LoaderError):
    """lost: what each larger disk has more than the smallest one."""

    code, exit_status = "storage.disks_unequal", 122
    message = "the disks are of unequal size, so striping leaves unused: {lost}"
    hint = "Give disks of one size, or add --unequal to do without that space; nothing was changed."


class DiskInUse(LoaderError):
    code, exit_status = "storage.disk_in_use", 123
    message = "{path} {reason}"
    hint = (
        "Give another disk. If what is on this one is not needed any more, remove it yourself (umount, pvremove, "
        "wipefs), then run the same command again; nothing was changed."
    )


class VolumeTooSmall(LoaderError):
    code, exit_status = "storage.volume_too_small", 124
    message = "{reason}"
    hint = "Give more or larger disks, or another --fs where that is the limit; nothing was changed."


class MigrationRefused(LoaderError):
    """reason: what is in the way; advice: what to do about it."""

    code, exit_status = "storage.migration", 125
    message = "{path}: {reason}"
    hint = "{advice}"


class Cancelled(LoaderError):
    code, exit_status = "cancelled", 130
    message = "stopped by {signal}"
    hint = "The same command resumes here."
    hint_without_run = "The same command starts over."


class Internal(LoaderError):
    code, exit_status = "internal", 70  # EX_SOFTWARE of sysexits(3)
    message = "internal error: {what}"
    hint = "This is a bug in ditseed. Please report it with the file {path}; check it first, as it may name entries."
