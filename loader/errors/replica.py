"""Of seeding and refreshing a replica."""

from __future__ import annotations

from loader.errors.base import LoaderError


class HiddenFromAccount(LoaderError):
    """what: as in the notes of an export. rule: the value of olcAccess that shows it."""

    code, exit_status = "seed.hidden", 88
    message = "{uri}: {what}"
    hint = (
        "On the provider, let the account read everything, by the first rule of the database (slapd.access(5)): "
        "olcAccess: {rule}. To make a replica without the hidden data, give --allow-hidden."
    )


class NotAsStored(LoaderError):
    code, exit_status = "seed.not_as_stored", 89
    message = "{uri}: {what}"
    hint = (
        "A replica must hold the values as they are stored, and a search on this server does not return them. Take the "
        "entries from the provider's database: --strategy clone, or --strategy ldif with the output of slapcat or of "
        "`ditseed export DATABASE-DIRECTORY`. To make a replica of what the search returns, give --allow-hidden."
    )


class OtherTree(LoaderError):
    code, exit_status = "server.other_tree", 97
    message = "{uri} is not a replica of {other}: {reason}"
    hint = "Repeat -H only for providers that replicate the same whole tree to each other."


class ReplicasApart(LoaderError):
    code, exit_status = "server.replicas_apart", 98
    message = "after {seconds} s, none of {uris} has received all changes of the others"
    hint = "Check the replication between them; the same command resumes once one of them has caught up."


class TreeRestless(LoaderError):
    code, exit_status = "server.tree_restless", 39
    message = "containers below {base} were renamed during each of {passes} attempts"
    hint = "Run the same command again when nobody is renaming subtrees; ditseed keeps the entries that it has read."


class SharedUuid(LoaderError):
    code, exit_status = "server.shared_uuid", 112
    message = "{first} and {dn} share the entryUUID {uuid}"
    hint = (
        "Replication cannot tell them apart. Delete one of them on the provider and add it again, which gives it an "
        "entryUUID of its own. To copy both as they are, export the database itself: `ditseed export "
        "DATABASE-DIRECTORY`, and load that with `ditseed build`."
    )


class NotAReplica(LoaderError):
    code, exit_status = "seed.is_consumer", 71
    message = "{where}: {suffix} is already a consumer: syncrepl writes to it, and slapd lets no other client write"
    hint = (
        "Save the olcSyncrepl values (ldapsearch shows them), remove the attribute from the database's entry, seed, "
        "and add the values again. This removes it: {undo}"
    )


class ReplicaNotEmpty(LoaderError):
    code, exit_status = "seed.not_empty", 72
    message = "{where}: {suffix} holds {what}"
    hint = "{advice}"


class RefreshRefused(LoaderError):
    code, exit_status = "refresh.refused", 91
    message = "{path}: cannot refresh the database: {reason}"
    hint = "{advice} Nothing was changed."


class RefreshUseless(LoaderError):
    """`sent`: entries that had come when it was given up; `held`: those of the database."""

    code, exit_status = "refresh.useless", 92
    message = "{uri} is sending more than half of all entries again ({sent} of {held})"
    hint = "Seed the replica again (ditseed replica seed --replace), which is faster. Nothing was changed."


class ProviderNotPrepared(LoaderError):
    """answer, why: what the provider would still send, and the reason."""

    code, exit_status = "seed.provider_not_prepared", 95
    message = "{uri}: {suffix} was prepared, but a consumer would still be sent {answer}: {why}"
    hint = (
        "Give the provider what docs/catch-up.md says it needs. To seed as it is, run the same command without "
        "--prepare-provider."
    )
