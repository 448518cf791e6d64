"""Comparing a replica with its provider where both note some things for themselves.

A consumer's slapo-ppolicy notes failed binds, slapo-lastbind and `lastbind` the last one, in the entry and without
replication (o_dont_replicate): provider and replica differ in that rightly.
"""

from __future__ import annotations

from dataclasses import replace

from loader.operations.compare import CompareOptions, CompareReport, compare
from loader.overlays import LOCAL
from loader.progress import Progress


def compared(asked: CompareOptions, progress: Progress) -> CompareReport:
    """The comparison. Where nothing but values differ, it is made once more without the attributes that each server
    may keep for itself; if these are all that differ, they stand in `local`, and the two are equal."""
    report = compare(asked, progress)
    if report.equal or report.only_a or report.only_b:
        return report
    without = compare(replace(asked, ignore=(*asked.ignore, *LOCAL)), progress)
    return replace(without, local=LOCAL) if without.equal else report
