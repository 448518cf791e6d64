"""The one name of each option, over all verbs: what a table, a profile and a variable may call it.

tests/cli/test_vocabulary.py holds every verb to it: the same thing has the same name and the same letter everywhere.
"""

from __future__ import annotations

import click

# Name and letter of each. A letter means one thing, but for those that OpenLDAP's own tools use twice (-b, -R).
OPTIONS = {
    name: letter
    for name, _, letter in (
        word.partition(":")
        for words in (
            # how a server is reached: ldapsearch's letters; long names as in ldap.conf(5) where it has them
            "uri:H simple:x bind-dn:D password-file:y ask-password:W mechanism:Y authcid:U authzid:X realm:R "
            "secprops:O nocanon:N start-tls:Z base:b",
            # the second server
            "consumer consumer-bind-dn consumer-password-file consumer-mechanism consumer-base",
            # accounts for preparing a provider
            "admin-bind-dn admin-password-file config-bind-dn config-password-file",
            # what is read, written, checked
            "config suffix:b from target output:o keep-export repo:R engine maxsize verify no-glue:g "
            "server-id:S write-context-csn:w no-value-check no-space-check allow-file-urls allow-hidden strategy "
            "prepare-provider nosync keep-operational on-exists batch",
            # a template's tree
            "entries:n seed define operational range shard-entries operations mix miss skew search format",
            # how much at a time
            "jobs:j shards pieces page memory tmp max-rate max-latency max-rejects rejects compress "
            "compress-level compact reflink skip",
            # comparing, watching
            "ignore user-attributes with-context-csn show-attributes limit wait max-age min-count "
            "max-verify-age max-drill-age max-shrink",
            # changing settings
            "set add remove no-reindex apply for growth sample-size stats-log filters costs lease "
            "give-back envflags checkpoint why",
            # a volume that is planned
            "database-size fs stripes redundant stripe-size extent-size vg lv mount volume-size unequal",
            # backups: which are kept, what they may take, how much of them is looked at
            "keep-last keep-daily keep-weekly keep-monthly keep-yearly keep-within keep-free "
            "all-databases kind incremental throttle only-on only-role run-as sample dn filter as-of "
            "recipient recipients-file identity init",
            # a watch, and what a monitoring system asks of it
            "interval samples window half-life layer probe state check warning:w critical:c fix",
            # a bench of directories
            "sync-entries searches fio-size",
            # a migration to another volume
            "service fstab watch rollback",
            # the run itself
            "plan replace discard dry-run restart forget run-dir timeout progress json report metrics profile "
            "quiet:q verbose:v log-file",
        )
        for word in words.split()
    )
}
# What a command does, and to what: on the command line only, so that no variable or profile decides it unseen.
TYPED = {
    "plan",
    "init",
    *("from", "target", "output", "keep-export", "range", "skip", "strategy", "prepare-provider"),
    *(
        "set",
        "add",
        "for",
        "stats-log",
        "filters",
        "costs",
        "give-back",
        "check",
        "fix",
        "layer",
        "probe",
        "as-of",
        "remove",
        "apply",
        "replace",
        "discard",
        "dry-run",
        "restart",
        "forget",
        "service",
        "rollback",
        "json",
        "report",
        "quiet",
        "verbose",
    ),
}


def name_of(option: click.Parameter) -> str | None:
    """Its long name, without dashes; None for an argument, and for the -w that is refused."""
    return next((word[2:] for word in option.opts if word.startswith("--")), None)


def letters_of(option: click.Parameter) -> str:
    return "".join(sorted(word[1:] for word in option.opts if not word.startswith("--")))
