"""Of LMDB databases, their copies and backups."""

from __future__ import annotations

from loader.errors.base import LoaderError


class NotLmdb(LoaderError):
    code, exit_status = "mdb.not_lmdb", 50
    message = "{path}: not an LMDB database of OpenLDAP ({reason})"
    hint = (
        "Check that this is the directory in slapd's olcDbDirectory (directory in slapd.conf). If it is, the file is "
        "damaged: use another copy or a backup."
    )


class MadeOtherwise(LoaderError):
    """A database file that the configuration would have made otherwise, in what cannot be mended in place."""

    code, exit_status = "mdb.made_otherwise", 113
    message = "{path}: made with another configuration than {config}: {reason}"
    hint = "{advice} Nothing was changed."


class MapFull(LoaderError):
    code, exit_status = "mdb.map_full", 51
    message = "{path}: the database has reached its map size of {map_size}"
    hint = "Raise maxsize (--maxsize auto, or `ditseed tune maxsize --apply`); the target was not changed."


class TargetNotEmpty(LoaderError):
    code, exit_status = "mdb.target_not_empty", 52
    message = "{path} already holds {what}"
    hint = "{advice}"


class TargetInUse(LoaderError):
    code, exit_status = "mdb.in_use", 53
    message = "{path} is open in another process{process}"
    hint = "Stop the slapd that uses it first: systemctl stop slapd."


class LockUnheeded(LoaderError):
    """reason: who writes to the database without looking at the reader slots of its lock.mdb."""

    code, exit_status = "mdb.lock_unheeded", 110
    message = "{path}: {reason}, so nothing keeps slapd from reusing pages while they are read"
    hint = (
        "Restart slapd (systemctl restart slapd), then run the same command again: lock.mdb was removed or replaced "
        "while slapd was running, and slapd looks for it only when it starts."
    )


class MdbDamaged(LoaderError):
    code, exit_status = "mdb.damaged", 54
    message = "{path}: {reason}"
    hint = "Do not use this file; use another copy or backup."


class NoEntry(LoaderError):
    code, exit_status = "mdb.no_entry", 59
    message = "{path}: there is no entry {dn}"
    hint = (
        "Check the DN (-b, --dn) or the filter; without -b, `ditseed export` reads everything and reports the suffix. "
        "Entries of a glued database are in its own files and backups. What was deleted before a backup was made is in "
        "an older one (`ditseed backup list`)."
    )


class NotStampable(LoaderError):
    code, exit_status = "mdb.not_stampable", 55
    message = "{path}: cannot set contextCSN of {suffix}: {reason}"
    hint = (
        "Check that this is a database of OpenLDAP with the entry of that suffix (`ditseed verify`); if it is damaged, "
        "make it again from the source."
    )


class IndexesUnknown(LoaderError):
    code, exit_status = "verify.not_proven", 69
    message = "the indexes cannot be rebuilt for comparison: {reason}"
    hint = "Use --verify tree, which checks everything but the indexes and needs no configuration."


class ReadersFull(LoaderError):
    code, exit_status = "mdb.readers_full", 57
    message = "{path}: all reader slots are taken"
    hint = (
        "Run mdb_stat -r to list them, and mdb_stat -rr to free those of processes that have died. If all are in use, "
        "raise maxreaders in slapd's configuration."
    )
    retryable = True


class NoRepository(LoaderError):
    """command: that creates it."""

    code, exit_status = "backup.no_repository", 120
    message = "{path}: there is no backup repository"
    hint = "Mount the file system that holds it, or correct -R. For a new repository, create it first: `{command}`."


class MdbBusy(LoaderError):
    code, exit_status = "mdb.busy", 58
    message = "{path}: no snapshot could be taken in {tries} attempts, because slapd writes too fast"
    hint = "Run the same command again when slapd receives fewer writes."
    retryable = True


class StreamBroken(LoaderError):
    code, exit_status = "clone.stream_broken", 67
    message = "{path}: {reason}"
    hint = "{advice}"
    retryable = True


class ReaderGone(LoaderError):
    code, exit_status = "export.reader_gone", 82
    message = "{path}: the process that was reading the {what} ended before the {what} was complete"
    hint = "Look for the reason in its own messages. The same two commands start over."


class StreamRefused(LoaderError):
    code, exit_status = "clone.stream_refused", 68
    message = "{path}: {reason}"
    hint = "Send the whole copy, without --skip, with the same version of ditseed on both sides."


class NoReflink(LoaderError):
    code, exit_status = "mdb.no_reflink", 73
    message = "{path}: the file system cannot share blocks with {target}"
    hint = "Copy the blocks, without `--reflink always`: they can be shared only within one xfs or btrfs file system."


class OtherFormat(LoaderError):
    code, exit_status = "mdb.other_format", 56
    message = "{path} has LMDB data format {found}, but {who} needs format {needed}"
    hint = (
        "OpenLDAP 2.4-2.6 (format 1) and 2.7 (format 3) cannot open each other's files. Use `ditseed migrate`, which "
        "makes the database again in the other format."
    )


class MdbProtected(LoaderError):
    code, exit_status = "mdb.protected", 100
    message = "{path} is an environment of LMDB 1.0 with {what}, which ditseed does not read"
    hint = "Use slapcat of the OpenLDAP that wrote it, or `ditseed export -H` from its server."


class NoSuchBackup(LoaderError):
    code, exit_status = "backup.no_such", 60
    message = "{path}: no backup {name}"
    hint = "Give the ID of a backup that `ditseed backup list` shows."


class BackupFromFuture(LoaderError):
    code, exit_status = "backup.from_future", 90
    message = "{path}: {name} is dated {made}, in the future, so ditseed cannot tell which backup is the latest"
    hint = "Set the clock, or give a backup from `ditseed backup list` instead of `latest`."


class LatestBroken(LoaderError):
    """when: by which it was the latest, or nothing. reason: of the manifest. advice: how to take the one before it."""

    code, exit_status = "backup.latest_broken", 111
    message = "{path}: the latest backup{when}, {name}, cannot be used: its manifest {reason}"
    hint = "{advice}"


class SetIncomplete(LoaderError):
    code, exit_status = "backup.set_incomplete", 117
    message = "{path}: {name} is of the same moment as {missing}, which is not there any more"
    hint = (
        "Restore each database by itself (`ditseed backup restore ID`). Or take another set: "
        "`ditseed backup list` shows the backups, `ditseed backup show ID` which ones are of one moment."
    )


class NoCommonMoment(LoaderError):
    code, exit_status = "backup.no_common_moment", 118
    message = "{path}: in {seconds} s this accesslog and {suffix} were never seen with the same last write"
    hint = "Run the same command again when fewer entries are deleted, or back up each database by itself (-b SUFFIX)."


class BackupEncrypted(LoaderError):
    """reason: why it cannot be decrypted."""

    code, exit_status = "backup.encrypted", 114
    message = "{path}: the backup is encrypted, and {reason}"
    hint = (
        "Give --identity FILE with the secret key of one of its recipients, which `ditseed backup show` lists. Nothing "
        "was changed."
    )


class BackupDamaged(LoaderError):
    code, exit_status = "backup.damaged", 63
    message = "{path}: {reason}"
    hint = "Restore another backup (`ditseed backup list` shows them); nothing was changed."
