"""Writing entries as LDIF: the containers of a template, and its entry number N, as bytes."""

from __future__ import annotations

import base64
import datetime
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from loader.errors import UsageProblem
from seeders.synthetic.randomness import stream
from seeders.synthetic.tags import Scope, compile_text, uuid_of
from seeders.synthetic.template import Template

_SAFE = re.compile(
    r"[!-9;=-~](?:[ -~]*[!-~])?"
).fullmatch  # RFC 2849 SAFE-STRING, no space at the end
_SPECIAL = re.compile(r'[,+"\\<>;=\x00-\x1f]|^[ #]| $')  # RFC 4514 2.4
_SUFFIX = re.compile(
    r"(dc|o|ou|l|c)=([^,+\"\\<>;=#]+)((,[a-z][a-z0-9-]*=[^,+\"\\<>;=]+)*)", re.IGNORECASE
)
_CLASSES = {  # the structural one last
    "dc": ("dcObject", "organization"),
    "o": ("organization",),
    "ou": ("organizationalUnit",),
    "l": ("locality",),
    "c": ("country",),
}
_BEGAN = datetime.datetime(
    2026, 1, 1
)  # operational attributes tell of one entry a microsecond since then

Line = Callable[[int, dict[str, str]], str]


@dataclass(frozen=True)
class Recipe:
    """All that decides the bytes of an entry, with its number."""

    template: Template
    seed: int
    suffix: str
    operational: bool = False


class Maker:
    """Makes the entries of a recipe. Making one twice, or elsewhere, gives the same bytes."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        template = recipe.template
        names: set[str] = set()
        self._values = []
        for name, text in template.values.items():
            self._values.append((name, compile_text(text, f"value:{name}", self._scope(names))))
            names.add(name)
        self._lines = list(self._attribute_lines(names))
        self._rdn = compile_text(
            template.attributes[template.rdn][0], f"{template.rdn}#0", self._scope(names)
        )
        self._parent = _join(template.below, recipe.suffix)
        self._operational = _operational(recipe) if recipe.operational else None
        if recipe.operational and template.structural:
            self._lines.append(_line_of("structuralObjectClass", _constant(template.structural)))

    def _scope(self, names: Iterable[str]) -> Scope:
        recipe = self._recipe
        return Scope(recipe.seed, recipe.suffix, recipe.template.lists, frozenset(names))

    def _attribute_lines(self, names: Iterable[str]) -> Iterator[Line]:
        for attribute, texts in self._recipe.template.attributes.items():
            for position, text in enumerate(texts):
                render = compile_text(text, f"{attribute}#{position}", self._scope(names))
                yield _line_of(attribute, render)

    def containers(self) -> list[bytes]:
        """The suffix's own entry and the branches, parents first."""
        suffix, branches = self._recipe.suffix, self._recipe.template.branches
        names = [suffix, *(_join(branch, suffix) for branch in branches)]
        return [self._container(name, place - len(names)) for place, name in enumerate(names)]

    def _container(self, name: str, number: int) -> bytes:
        attribute, value = _suffix_parts(name)
        lines = [_line("dn", name), *(_line("objectClass", one) for one in _CLASSES[attribute])]
        lines.append(_line(attribute, value))
        if attribute == "dc":
            lines.append(_line("o", value))
        if self._operational:
            lines.append(_line("structuralObjectClass", _CLASSES[attribute][-1]))
            lines.append(self._operational(number, {}))
        return "".join([*lines, "\n"]).encode()

    def entry(self, number: int) -> bytes:
        """One record, the empty line after it included."""
        known: dict[str, str] = {}
        for name, render in self._values:
            known[name] = render(number, known)
        rdn = self._rdn(number, known)
        if _SPECIAL.search(rdn):
            rdn = _escaped(rdn)
        lines = [_line("dn", f"{self._recipe.template.rdn}={rdn},{self._parent}")]
        lines += [line(number, known) for line in self._lines]
        if self._operational:
            lines.append(self._operational(number, known))
        lines.append("\n")
        return "".join(lines).encode()

    def block(self, first: int, end: int) -> bytes:
        """The records of entries `first` to `end`-1."""
        return b"".join([self.entry(number) for number in range(first, end)])


def check_suffix(suffix: str) -> None:
    """Raise UsageProblem unless an entry can be made for this suffix."""
    _suffix_parts(suffix)


def _suffix_parts(name: str) -> tuple[str, str]:
    match = _SUFFIX.fullmatch(name)
    if not match:
        raise UsageProblem(
            reason=f"suffix {name!r}: must be a plain DN that begins with dc=, o=, ou=, l= or c="
        )
    return match[1].lower(), match[2].strip()


def _join(relative: str, suffix: str) -> str:
    return f"{relative},{suffix}" if relative else suffix


def _line(attribute: str, value: str) -> str:
    """One line of LDIF, never folded."""
    if _SAFE(value):
        return f"{attribute}: {value}\n"
    return f"{attribute}:: {base64.b64encode(value.encode()).decode()}\n"


def _line_of(attribute: str, render: Line) -> Line:
    plain = f"{attribute}: "

    def line(number: int, known: dict[str, str]) -> str:
        value = render(number, known)
        return f"{plain}{value}\n" if _SAFE(value) else _line(attribute, value)

    return line


def _constant(text: str) -> Line:
    return lambda number, known: text


def _escaped(value: str) -> str:
    return _SPECIAL.sub(lambda match: "".join(f"\\{byte:02X}" for byte in match[0].encode()), value)


def _operational(recipe: Recipe) -> Line:
    """What slapadd would make up anew each time: with these in the LDIF two builds are equal."""
    high, low = stream(recipe.seed, "entryUUID/high"), stream(recipe.seed, "entryUUID/low")
    admin = _line("creatorsName", f"cn=admin,{recipe.suffix}")
    admin += _line("modifiersName", f"cn=admin,{recipe.suffix}")

    def lines(number: int, known: dict[str, str]) -> str:
        seconds, micro = divmod(number, 1_000_000)
        when = _timestamp(seconds)
        uuid = uuid_of(high(number), low(number))
        return (
            f"entryUUID: {uuid}\n{admin}createTimestamp: {when}Z\nmodifyTimestamp: {when}Z\n"
            f"entryCSN: {when}.{micro:06d}Z#000000#000#000000\n"
        )

    return lines


@functools.lru_cache(maxsize=16)
def _timestamp(seconds: int) -> str:
    return (_BEGAN + datetime.timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%S")
