"""What is timed: the layers below a path, or those that the operator names, and the probes beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from loader.errors import UsageProblem
from loader.operations.storage import check
from loader.storage import files, mounts, probes, survey
from loader.storage.devices import Device
from loader.storage.mounts import Mount
from loader.storage.probes import FileLock, Timed, Writer

PROBES: dict[str, Callable[[Path], Timed]] = {"flock": FileLock, "write": Writer}
LIMIT = 3.0  # seconds: what takes longer has failed for whoever waits for it
_DIGITS = "0123456789"


class Layer(msgspec.Struct, frozen=True):
    """`path`: what is read. `on`: names of the layers right below it."""

    name: str
    path: str
    on: tuple[str, ...] = ()


def below(place: Path) -> tuple[Layer, ...]:
    """The file system, then the devices, the upper ones first. Raises NoSuchPath, NotPermitted, UsageProblem."""
    path = check.data_file(place) or place
    with files.explained(path):
        mount = mounts.mount_of(path)
    return on_devices(str(path), mount, survey.devices_of(mount))


def on_devices(path: str, mount: Mount, devices: Sequence[Device]) -> tuple[Layer, ...]:
    known = {one.name: one for one in devices}
    under = {name for one in devices for name in one.on}
    tops = [one for one in devices if one.name not in under]
    name = f"{mount.kind} on {mount.target}"
    found = [Layer(name, path, tuple(one.path for one in tops))]
    found += [_layer(one, known) for one in _shown(tops, known)]
    return tuple({one.path: one for one in found}.values())


def _layer(device: Device, known: Mapping[str, Device]) -> Layer:
    on = dict.fromkeys(one.path for one in _below(device, known))
    return Layer(device.path, device.path, tuple(on))


def _shown(devices: Sequence[Device], known: Mapping[str, Device]) -> Iterator[Device]:
    """Level by level."""
    while devices:
        yield from devices
        devices = [one for device in devices for one in _below(device, known)]


def _below(device: Device, known: Mapping[str, Device]) -> list[Device]:
    """Volumes that LVM makes for a volume (rimage, rmeta, tdata) are parts of it, no layers of their own."""
    found = []
    for one in (known[name] for name in device.on if name in known):
        is_part = device.kind == one.kind == "lvm"
        found += _below(one, known) if is_part else [one]
    return found


def given(words: Sequence[str]) -> tuple[Layer, ...]:
    """Of NAME=PATH, from the top down: each stands on the next. Names that differ only in the number at their end are
    of one level. Raises UsageProblem, NoSuchPath."""
    pairs = [word.partition("=") for word in words]
    levels: dict[str, list[tuple[str, str]]] = {}
    for name, equals, path in pairs:
        if not (name and equals and path) or not name.isprintable():
            raise UsageProblem(reason=f"--layer {name}{equals}{path}: write NAME=PATH")
        with files.explained(Path(path)):
            Path(path).stat()
        levels.setdefault(name.rstrip(_DIGITS), []).append((name, path))
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise UsageProblem(reason="--layer: two layers have the same name")
    ordered = list(levels.values())
    lower = [*ordered[1:], []]
    return tuple(
        Layer(name, path, tuple(other for other, _ in next_one))
        for level, next_one in zip(ordered, lower, strict=True)
        for name, path in level
    )


class Target(msgspec.Struct, frozen=True):
    """`limit`: seconds after which it counts as failed, None where a slow one is only slow."""

    layer: Layer
    open: Callable[[], Timed]
    limit: float | None = None


def of_layer(layer: Layer) -> Target:
    return Target(layer, lambda: probes.opened(Path(layer.path)))


def beside(names: Sequence[str], layers: Sequence[Layer], place: Path | None) -> tuple[Target, ...]:
    """The probes of `names`. `place`: the path that is watched; without one, files are made where the first layer is
    that is a file or a directory. Raises UsageProblem."""
    found = tuple(_in_files(name, layers, place) for name in PROBES if name in names)
    taken = {one.name for one in layers} & {one.layer.name for one in found}
    if taken:
        raise UsageProblem(reason=f"--layer: {taken.pop()} is the name of a probe")
    return found


def _in_files(name: str, layers: Sequence[Layer], place: Path | None) -> Target:
    paths = [place] if place else [Path(one.path) for one in layers]
    found = next((one for one in paths if one.is_dir() or one.is_file()), None)
    if found is None:
        reason = f"--probe {name} needs a directory: give PATH, or a layer that is one"
        raise UsageProblem(reason=reason)
    directory = found if found.is_dir() else found.parent
    layer = Layer(f"{name} in {directory}", str(directory))
    return Target(layer, lambda: PROBES[name](directory), LIMIT)
