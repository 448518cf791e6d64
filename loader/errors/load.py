"""Of what is loaded: LDIF, templates, and the entries in them."""

from __future__ import annotations

from loader.errors.base import LoaderError


class LdifTruncated(LoaderError):
    code, exit_status = "ldif.truncated", 40
    message = "{path}: the file ends in the middle of a record (line {line}): {reason}"
    hint = "Copy the file again; if it is complete and only the last newline is missing, append one."


class LdifSyntax(LoaderError):
    code, exit_status = "ldif.syntax", 41
    message = "{path}, line {line}: {reason}"
    hint = "Correct the file there (RFC 2849); if it was copied, compare it with its source."


class LdifUnreadable(LoaderError):
    code, exit_status = "ldif.unreadable", 42
    message = "{path}: {reason}"
    hint = "Check that the file is complete and readable on this host."


class LdifEncoding(LoaderError):
    code, exit_status = "ldif.encoding", 81
    message = "{path}: {reason}; LDIF is UTF-8 without a byte order mark (RFC 2849)"
    hint = (
        "Convert it to UTF-8: `iconv -f UTF-16 -t UTF-8 IN > OUT`; to remove a byte order mark: "
        "`sed '1s/^\\xEF\\xBB\\xBF//' IN > OUT`."
    )


class IncludeRefused(LoaderError):
    code, exit_status = "ldif.include", 83
    message = "{path}, line {line}: {reason}"
    hint = (
        "Give both files on the command line, in their order, or use `ditseed build --allow-file-urls`, which reads "
        "the files that include: lines name."
    )


class MissingParents(LoaderError):
    code, exit_status = "ldif.missing_parents", 43
    message = "{count} parent entries are missing; the first is {first}"
    hint = (
        "Add them to the LDIF, or export from a base that contains them. A database that slapadd made without them: "
        "`ditseed export` it, add them to the LDIF, and `ditseed build` that."
    )


class ManifestBroken(LoaderError):
    code, exit_status = "manifest.broken", 44
    message = "{path}: {reason}"
    hint = (
        "The export or backup is incomplete or damaged; make it again. To read LDIF files that you have changed, give "
        "the files instead of their directory."
    )


class EmptyInput(LoaderError):
    code, exit_status = "ldif.empty", 45
    message = "{path}: no entries"
    hint = (
        "Check that it is the right file, directory or base, and that a server lets the bind DN read its entries. A "
        "database without entries needs no migration: slapd makes a new one."
    )


class EntryRefused(LoaderError):
    code, exit_status = "build.entry_refused", 46
    message = "{dn} was refused: {reason}"
    hint = "Correct that entry in the LDIF ({where}) and build again{way_out}; nothing was changed."


class AllRejected(LoaderError):
    code, exit_status = "build.all_rejected", 101
    message = "{path}: all {rejected} entries were rejected, the first of them {dn}: {reason}"
    hint = (
        "Check that --config and -b are those of this LDIF; the entries are in {rejects}, each with its reason. "
        "Nothing was changed."
    )


class EntriesLost(LoaderError):
    code, exit_status = "build.entries_lost", 47
    message = "{read} entries read, but {written} are in the database"
    hint = "The target was not changed; please report this, with {log}."


class NotProven(LoaderError):
    code, exit_status = "build.not_proven", 48
    message = "the native engine cannot guarantee the same database as slapadd: {reason}"
    hint = (
        "Use --engine slapadd, which is slower and has slapadd write the database; nothing was changed. It takes "
        "neither --max-rejects and --rejects, because slapadd stops at the first entry that it refuses, nor --memory, "
        "--jobs, --tmp and --allow-file-urls. For `ditseed migrate`: `ditseed export SOURCE -o - | ditseed build - "
        "--engine slapadd`."
    )


class GlueRefused(LoaderError):
    code, exit_status = "build.glue", 75
    message = "the glued databases of {suffix}: {reason}"
    hint = "{advice} Nothing was changed."


class TooManyEntries(LoaderError):
    code, exit_status = "build.too_many_entries", 49
    message = "{path}: {reason}"
    hint = "Split the tree among several databases; nothing was changed."


class TemplateError(LoaderError):
    code, exit_status = "template.bad", 61
    message = "{path}: {reason}"
    hint = "Correct the template; docs/generate.md describes what it may contain."


class NoSuchTemplate(LoaderError):
    code, exit_status = "template.no_such", 62
    message = "there is no template {name}"
    hint = "Give one of these, or the path of a file of your own; ditseed comes with these templates: {known}."


class NothingToLearn(LoaderError):
    code, exit_status = "template.nothing_to_learn", 74
    message = "{reason}"
    hint = "Learn from a tree of at least a few hundred entries."


class AddRefused(LoaderError):
    code, exit_status = "add.entry_refused", 64
    message = "{dn} was refused: {reason} ({rejected} refused, {added} added)"
    hint = "{advice}"


class AddLost(LoaderError):
    code, exit_status = "add.entries_lost", 65
    message = "{read} entries were read, but the outcome of only {settled} is known"
    hint = "Compare the server with the LDIF (ditseed compare), and please report this, with {where}."


class LeaseStands(LoaderError):
    code, exit_status = "add.lease_stands", 66
    message = "{what} of {suffix} could not be reset: {reason}"
    hint = "When the server is reachable, run: {undo}. The next `ditseed add` or `replica seed` to it does the same."
