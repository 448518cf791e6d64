"""Comparing a replica with its provider where some differences say nothing about replication.

A consumer's slapo-ppolicy notes failed binds, slapo-lastbind and `lastbind` the last one, in the entry and without
replication (o_dont_replicate): provider and replica differ in that rightly. And access control may hide an attribute on
one of the two (Debian's package hides userPassword): it looks as if it were missing.
"""

from __future__ import annotations

from dataclasses import replace

from loader.operations.compare import CompareOptions, CompareReport, compare
from loader.overlays import LOCAL
from loader.progress import Progress


def compared(asked: CompareOptions, progress: Progress) -> CompareReport:
    """The comparison. Where nothing but values differ, it is made once more without the attributes that each server
    may keep for itself, and those that one of them hides. If these are all that differ, the former stand in `local` and
    the two are equal; or the latter stand in `equal_but_for`, and nobody knows whether they are equal."""
    report = compare(asked, progress)
    if report.equal or report.only_a or report.only_b:
        return report
    hidden = {name for one in report.hidden for name in one.attributes}
    without = compare(replace(asked, ignore=(*asked.ignore, *LOCAL, *hidden)), progress)
    if not without.equal:
        return report
    if not hidden:
        return replace(without, local=LOCAL)
    return replace(report, equal_but_for=tuple(sorted(hidden)))
