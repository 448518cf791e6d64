"""The lines of fstab: the new one, and the former ones kept as comments; and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loader import child
from loader.errors import ConfigNotEditable
from loader.operations.storage.commands import fstab_word
from loader.operations.storage.migrate.volume import Volume
from loader.storage import files, mounts, rewrite
from loader.storage.mounts import FstabEntry


class Edit(msgspec.Struct, frozen=True):
    """A line (None: the end of the file), and the lines that take its place."""

    before: str | None
    after: tuple[str, ...]


def edits(fstab: Path, place: str, other: str, new: Volume, day: str) -> tuple[Edit, ...]:
    """`place`: where the volume will be mounted; `other`: where it is now. The new line comes before those that need
    what is mounted on `place`: `mount -a` goes from line to line."""
    line = " ".join((*map(fstab_word, (new.source, place)), new.kind, new.options, "0 2"))
    mark = f"# {day} ditseed storage migrate: "
    former = _lines(fstab, place)
    found = [
        Edit(one, (f"{mark}kept, the former volume of {place}", f"# {one}")) for one in former[:-1]
    ]
    if former:
        kept = (f"{mark}kept, the former volume of {place}", f"# {former[-1]}", line)
        found.append(Edit(former[-1], kept))
    else:
        before = next((text for text, entry in _entries(fstab) if _needs(entry, place)), None)
        rest = () if before is None else (before,)
        found.append(Edit(before, (f"{mark}the new volume of {place}", line, *rest)))
    moved = f"{mark}kept, this volume is mounted on {place} now"
    return (*found, *(Edit(one, (moved, f"# {one}")) for one in _lines(fstab, other)))


def of_volume(wanted: Sequence[Edit], place: str) -> tuple[Edit, ...]:
    """Those that take the volume's line of `place` out."""
    return tuple(
        one
        for one in wanted
        if any(line.target == place for line in mounts.entries(one.before or ""))
    )


def _lines(fstab: Path, place: str) -> list[str]:
    return [text for text, entry in _entries(fstab) if entry.target == place]


def _entries(fstab: Path) -> list[tuple[str, FstabEntry]]:
    text = _text(fstab)
    lines = text.splitlines()
    return [(lines[one.number - 1], one) for one in mounts.entries(text)]


def _needs(entry: FstabEntry, place: str) -> bool:
    """Is it mounted below `place`, or a bind mount from there?"""
    return mounts.is_within(entry.target, place) or mounts.is_within(entry.source, place)


def _text(fstab: Path) -> str:
    return files.read(fstab).decode("utf-8", "surrogateescape")


def apply(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Do those that are not done. Raises ConfigNotEditable, NotPermitted, NoSpace."""
    _replace(fstab, [((() if one.before is None else (one.before,)), one.after) for one in wanted])


def undo(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Put back what `apply` or `leave_out` changed."""
    lines = _text(fstab).splitlines()
    done = [
        _left_out(one) if _where(lines, _left_out(one)) is not None else one.after for one in wanted
    ]
    former = [() if one.before is None else (one.before,) for one in wanted]
    _replace(fstab, [*zip(done, former, strict=True)])


def leave_out(fstab: Path, wanted: Sequence[Edit]) -> None:
    """Instead of `undo`, of lines whose volume cannot be mounted any more: a boot would wait for it."""
    lines = _text(fstab).splitlines()
    applied = [one for one in wanted if _where(lines, one.after) is not None]
    _replace(fstab, [(one.after, _left_out(one)) for one in applied])


def _left_out(edit: Edit) -> tuple[str, ...]:
    comment, *rest = edit.after
    mark = comment.partition(": ")[0]
    return (
        f"{mark}: kept, this volume could not be mounted when the migration was rolled back",
        *rest,
    )


def _replace(fstab: Path, changes: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
    before = _text(fstab)
    lines = before.splitlines()
    for old, new in changes:
        start = _where(lines, old)
        if _is_done(lines, old, new):
            continue
        if start is None:
            raise ConfigNotEditable(
                path=fstab,
                reason=f"it has been edited: this line is missing: {old[-1]}",
                advice=f"Write these lines into it by hand ({'; '.join(new or old)}), then run the same command again.",
                lines=(),
            )
        lines[start : start + len(old)] = new
    after = "".join(f"{line}\n" for line in lines)
    if after != before:
        _write(fstab, before, after)


def _is_done(lines: Sequence[str], old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    if len(new) > len(old):  # forward: the new lines contain the old one only as a comment
        return _where(lines, new) is not None
    return _where(lines, old) is None and (not new or _where(lines, new) is not None)


def _where(lines: Sequence[str], block: tuple[str, ...]) -> int | None:
    if not block:
        return len(lines)
    starts = range(len(lines) - len(block) + 1)
    return next((n for n in starts if tuple(lines[n : n + len(block)]) == block), None)


def _write(fstab: Path, before: str, after: str) -> None:
    well = _is_well(fstab)
    old, new = (text.encode("utf-8", "surrogateescape") for text in (before, after))
    rewrite.rewrite(fstab, old, new)
    if well and not _is_well(fstab):
        rewrite.rewrite(fstab, new, old)
        raise ConfigNotEditable(
            path=fstab,
            reason="findmnt --verify refuses the new lines; the former ones were put back",
            advice=f"Run findmnt --verify --tab-file {fstab} to see why.",
            lines=(),
        )
    if fstab == mounts.FSTAB and Path("/run/systemd/system").is_dir():
        child.output(["systemctl", "daemon-reload"])  # it makes its mount units from fstab


def _is_well(fstab: Path) -> bool:
    return child.ask(["findmnt", "--verify", "--tab-file", str(fstab)]).status == 0


def difference(wanted: Sequence[Edit]) -> Iterator[str]:
    for one in wanted:
        if one.before is not None:
            yield f"- {one.before}"
        yield from (f"+ {line}" for line in one.after)
