"""Reads what a monitoring plugin prints by the rules of the Monitoring Plugins guidelines, strictly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import nagiosplugin

UNITS = {"", "s", "ms", "us", "%", "B", "c"}
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")  # no exponent, no comma, no sign but minus
LABEL = re.compile(r"'([^'=|]+)'=|([^'=|\s]+)=")


@dataclass(frozen=True)
class Datum:
    label: str
    value: float
    unit: str
    limits: tuple[nagiosplugin.Range | None, ...]


def read(lines: Sequence[str], name: str) -> tuple[str, dict[str, Datum]]:
    """Returns the status word of the plugin `name`, and its performance data by label."""
    first, *more = lines
    assert all(line.isprintable() for line in lines)
    assert not any("|" in line for line in more)
    text, _, numbers = first.partition(" | ")
    assert "|" not in text + numbers
    head, dash, said = text.partition(" - ")
    assert (head.rsplit(" ", 1)[0], dash, bool(said)) == (name, " - ", True)
    data: dict[str, Datum] = {}
    while numbers:
        datum, numbers = _first_of(numbers)
        assert datum.label not in data
        data[datum.label] = datum
    return head.rsplit(" ", 1)[1], data


def _first_of(numbers: str) -> tuple[Datum, str]:
    """Returns 'label'=value[UOM];[warn];[crit];[min];[max], and what follows it."""
    label = LABEL.match(numbers)
    assert label is not None, numbers
    word, _, following = numbers[label.end() :].partition(" ")
    value, *fields = word.split(";")
    number = DECIMAL.match(value)
    assert number is not None, numbers
    unit = value[number.end() :]
    assert unit in UNITS
    assert len(fields) <= 4
    assert all(not one or DECIMAL.fullmatch(one) for one in fields[2:])
    # Its own constructors refuse what is no label and no range.
    name = label[1] or label[2]
    nagiosplugin.Performance(name, number[0], unit, *fields)
    ranges = tuple(nagiosplugin.Range(one) if one else None for one in fields[:2])
    return Datum(name, float(number[0]), unit, ranges), following
