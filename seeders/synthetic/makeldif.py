"""Converts templates of OpenDJ's makeldif to ditseed's templates.

The converted template makes a tree with the same branches, numbers of entries, attributes and forms of values, but with
other random values. A line that ditseed's templates cannot express is rejected with its number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from loader.errors import TemplateError
from loader.storage import files

# Maps the naming attribute of a branch without objectClass to the object class that makeldif adds (its manual).
_CLASSES = {"dc": "domain", "o": "organization", "ou": "organizationalUnit", "l": "locality", "c": "country"}
# Maps the alternative name of an attribute type to the usual name (RFC 4519), both in lower case.
_SYNONYMS = {"commonname": "cn", "surname": "sn", "userid": "uid", "localityname": "l", "streetaddress": "street"}
# Maps a word list of makeldif to ditseed's list, which is used if the template's directory has no such file.
_NAMES = {"first.names": "first-names.txt", "last.names": "last-names.txt"}
_SHIPPED = {**_NAMES, "cities": "places.txt", "states": "states.txt", "streets": "streets.txt"}
# Maps the KIND of <random:KIND:LENGTH> to the characters of {chars:...}.
_CHARS = {"alpha": "alpha", "alphanumeric": "mixed", "hex": "hex", "base64": "base64"}
_LONGEST = 100  # maximum length of a random string over an alphabet in the template; each character is a {pick} tag
_MOST_DIGITS = 18  # maximum digits of a {digits:N} tag
# Limits for malicious templates: bytes of the text, total lines of all kinds of entries, levels of the tree.
_MOST_BYTES, _MOST_LINES, _MOST_LEVELS = 16 << 20, 200_000, 250

_DEFINE = re.compile(r"(?<!\\)\[([^\W\d][\w.-]*)\]")
_PIECE = re.compile(r"\\(?P<escaped>.)|<(?P<tag>[^<>]*)>|\{(?P<value>[^{}]*)\}|(?P<text>[^\\<{]+|.)", re.DOTALL)


class _Refusal(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


def is_makeldif(path: Path) -> bool:
    """Returns whether a file is a makeldif template: its first line begins with define, include or a word and ":"."""
    with files.explained(path), path.open("rb") as file:
        lines = file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return re.match(r"(define|include)\s|[\w-]+:", first, re.IGNORECASE) is not None


def convert(path: Path, defines: Mapping[str, str]) -> str:
    """Returns the converted template as TOML. `defines`: values that override those of the template.

    Raises TemplateError if the template is invalid, or if a part of it has no equivalent in ditseed's templates.
    """
    with files.explained(path), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise TemplateError(path=path, reason=f"more than {_MOST_BYTES} bytes")
    try:
        suffix, branches, templates = _read(content.decode(), defines)
        return _Converter(path, suffix, templates).template(branches)
    except UnicodeDecodeError as error:
        raise TemplateError(path=path, reason="must be UTF-8") from error
    except _Refusal as refusal:
        raise TemplateError(path=path, reason=str(refusal)) from refusal


class _Line(Struct, frozen=True):
    number: int
    attribute: str
    text: str

    @property
    def key(self) -> str:
        return _key(self.attribute)


class _Block(Struct, dict=True):
    """A branch or a template. `name`: the DN of a branch, or the name of a template. `below`: line, template and count
    of each subordinateTemplate. A count of None means that -n decides; makeldif would create entries forever."""

    line: int
    name: str
    is_branch: bool
    rdn: list[str] = []
    below: list[tuple[int, str, int | None]] = []
    lines: list[_Line] = []

    @cached_property
    def first(self) -> dict[str, _Line]:
        first: dict[str, _Line] = {}
        for line in self.lines:
            first.setdefault(line.key, line)
        return first

    @cached_property
    def values(self) -> dict[str, str]:
        """Maps each attribute to which a {NAME} or {NAME:LENGTH} refers to its name in kinds.values."""
        references = (match["value"] for line in self.lines for match in _PIECE.finditer(line.text))
        named = {_key(text.partition(":")[0].strip()) for text in references if text is not None}
        used = () if self.is_branch else self.first.items()
        return {key: re.sub(r"[^\w.-]", "_", line.attribute) for key, line in used if key in named}

    def add(self, number: int, line: str) -> None:
        word, colon, rest = (part.strip() for part in line.partition(":"))
        match word.lower():
            case _ if not colon:
                raise _Refusal(number, f"{line}: expected ATTRIBUTE: VALUE")
            case "rdnattr":
                self.rdn += [name.strip() for name in rest.split("+")]
            case "extends":
                raise _Refusal(number, f"extends: has no equivalent; write the lines of {rest} into this template")
            case "subordinatetemplate":
                name, colon, count = (part.strip() for part in rest.partition(":"))
                if colon and not _is_number(count.removeprefix("-")):
                    raise _Refusal(number, f"subordinateTemplate: {count!r} is not a number of entries")
                self.below.append((number, name, int(count) if _is_number(count) else None))
            case _ if value := rest.removeprefix(":").strip():
                self.lines.append(_Line(number, word, value))
        if len(self.lines) > _MOST_LINES:
            raise _Refusal(number, f"more than {_MOST_LINES} lines")


def _read(text: str, overrides: Mapping[str, str]) -> tuple[str, list[_Block], dict[str, _Block]]:
    """Returns the suffix, the branches, and the templates by name in lower case."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(" ") and line.strip() and lines:  # a continuation of the previous line
            lines[-1] = (lines[-1][0], lines[-1][1] + line[1:])
        elif not line.startswith("#"):
            lines.append((number, line))
    defines = {name.lower(): value for name, value in overrides.items()}
    branches: list[_Block] = []
    templates: dict[str, _Block] = {}
    block: _Block | None = None
    for number, raw in lines:
        line = _substituted(number, raw, defines).rstrip()
        word, _, rest = (part.strip() for part in line.partition(":"))
        if not line:
            block = None
        elif match := re.match(r"define\s+([^=]+)=(.*)", line, re.IGNORECASE):
            defines.setdefault(match[1].strip().lower(), match[2])
        elif word.lower() == "branch":
            block = _Block(number, _compact(rest), is_branch=True)
            branches.append(block)
        elif word.lower() == "template":
            block = _Block(number, rest, is_branch=False)
            if templates.setdefault(rest.lower(), block) is not block:
                raise _Refusal(number, f"there is a template {rest} already")
        elif block is None:
            hint = "; tags that are written in Java cannot be included" if line.startswith("include") else ""
            raise _Refusal(number, f"{line}: expected define, branch: or template:{hint}")
        else:
            block.add(number, line)
    if not branches:
        raise _Refusal(1, "the template has no branch")
    suffix = _compact(defines.get("suffix", ""))
    if not suffix or _relative(branches[0].name, suffix) is None:
        suffix = branches[0].name
    return suffix, branches, templates


def _substituted(number: int, line: str, defines: Mapping[str, str]) -> str:
    names = [name.lower() for name in _DEFINE.findall(line)]
    for name in names:
        if name not in defines:
            raise _Refusal(number, f"no define named {name}; write \\[{name}\\] for the text itself")
    if sum(len(defines[name]) for name in names) > _MOST_BYTES:
        raise _Refusal(number, f"more than {_MOST_BYTES} bytes with its defines")
    return _DEFINE.sub(lambda match: defines[match[1].lower()], line)


class _Converter:
    def __init__(self, path: Path, suffix: str, templates: Mapping[str, _Block]) -> None:
        self.path, self.suffix, self.templates = path, suffix, templates
        self.lists: dict[str, object] = {}
        self.kinds: list[str] = []
        self.lines = 0  # total lines of all kinds
        self.uses: Counter[str] = Counter()
        self.passed: dict[str, int | None] = {}  # number of entries of each template so far; None if -n decides
        self.start = 0  # number of entries of the current template in its earlier uses
        self.suffixes = re.compile(rf"(?<![^\s,=/:(]){re.escape(suffix)}(?![\w.,-])", re.IGNORECASE)

    def template(self, branches: Sequence[_Block]) -> str:
        tables = []
        for branch in branches:
            dn = _relative(branch.name, self.suffix)
            if dn is None:
                reason = f"branch {branch.name} is not below {self.suffix}: a template makes one tree"
                raise _Refusal(branch.line, reason)
            table: object = dn
            if branch.lines:
                attributes = self._attributes(branch)
                naming = branch.name.partition("=")[0].lower()
                if "objectClass" not in attributes and naming not in _CLASSES:
                    raise _Refusal(branch.line, f"branch {branch.name}: objectClass is missing")
                added = {} if "objectClass" in attributes else {"objectClass": _CLASSES[naming]}
                table = {"dn": dn, "attributes": {**added, **attributes}}
            if table:  # the suffix itself needs no branch
                tables.append(f"    {_toml(table)},")
            for below in branch.below:
                self._subordinate(below, dn, 1, ())
        facts = {"description": f"converted from {self.path.name} of makeldif", "suffix": self.suffix}
        head = [*_assignments(facts), "branches = [", *tables, "]"]
        return "\n".join([*head, "", "[lists]", *_assignments(self.lists), *self.kinds, ""])

    def _subordinate(
        self, below: tuple[int, str, int | None], parent: object, above: int | None, ancestors: tuple[str, ...]
    ) -> None:
        """Adds a kind of entries, then the kinds below it. `below`: as in _Block. `parent`: the value of `below` in
        [[kinds]]. `above`: number of parent entries; None if -n decides."""
        line, name, count = below
        template = self.templates.get(name.lower())
        if template is None:
            raise _Refusal(line, f"no template named {name}")
        if template.name in ancestors or len(ancestors) > _MOST_LEVELS:
            raise _Refusal(line, f"template {template.name} is below itself, or too many levels deep")
        if count == 0:
            return
        if not template.rdn:
            raise _Refusal(template.line, f"template {template.name} has no rdnAttr")
        self.lines += 1 + len(template.lines)
        if self.lines > _MOST_LINES:
            raise _Refusal(template.line, f"more than {_MOST_LINES} lines in all kinds of entries")
        passed = self.passed.get(template.name, 0)
        if passed is None:
            raise _Refusal(line, f"template {template.name} is used again after a use without a count")
        total = None if count is None or above is None else count * above
        self.passed[template.name], self.start = None if total is None else passed + total, passed
        self.uses[template.name] += 1
        uses = self.uses[template.name]
        name = template.name if uses == 1 else f"{template.name}-{uses}"

        first = template.first
        rdn = [first[_key(word)].attribute if _key(word) in first else word for word in template.rdn]
        number = {} if count is None else {"count": f"{count} each" if ancestors else count}
        facts = {"name": name, "below": parent, **number, "rdn": rdn[0] if len(rdn) == 1 else rdn}
        values = {value: self._item(first[key], template)[0] for key, value in template.values.items()}
        self.kinds += ["", "[[kinds]]", *_assignments(facts)]
        self.kinds += ["[kinds.values]", *_assignments(values)] if values else []
        self.kinds += ["[kinds.attributes]", *_assignments(self._attributes(template))]
        for subordinate in template.below:
            self._subordinate(subordinate, {"kind": name}, total, (*ancestors, template.name))

    def _attributes(self, block: _Block) -> dict[str, object]:
        """Returns the value of each attribute for TOML; several lines of one attribute become a list."""
        items: dict[str, list[object]] = {}
        for line in block.lines:
            item, chance = self._item(line, block)
            first = block.first[line.key]
            if line is first and line.key in block.values:
                value = block.values[line.key]
                item = f"{{{value}}}" if chance == 1 else {"text": f"{{{value}}}", "when": [value]}
            items.setdefault("objectClass" if line.key == "objectclass" else first.attribute, []).append(item)
        return {name: lines[0] if len(lines) == 1 else lines for name, lines in items.items()}

    def _item(self, line: _Line, block: _Block) -> tuple[object, float]:
        """Returns a line's value for TOML, and the fraction of entries that have the value."""
        text, chance = "", 1.0
        for match in _PIECE.finditer(line.text):
            if match["tag"] is not None:
                word, *words = [word.strip() for word in match["tag"].split(":") if word] or [""]
                if word.lower() == "presence" and len(words) == 1 and _is_number(words[0]) and int(words[0]) <= 100:
                    chance *= int(words[0]) / 100
                    continue
                tag = self._tag(line, [word.lower(), *words], block)
                if tag is None:
                    raise _no_equivalent(line, f"<{match['tag']}>")
                text += tag
            elif match["value"] is not None:
                name, _, length = (part.strip() for part in match["value"].partition(":"))
                first = block.first.get(_key(name))
                if first is None or first.number >= line.number:
                    raise _Refusal(line.number, f"{line.attribute}: no line before this one makes {name}")
                if block.is_branch or (length and not _is_number(length)):
                    raise _no_equivalent(line, f"{{{match['value']}}}{' in a branch' if block.is_branch else ''}")
                text += f"{{{block.values[first.key]}{f':{length}' if int(length or 0) else ''}}}"
            elif match["text"] in ("<", "{"):
                raise _Refusal(line.number, f"{match['text']} is not closed; write \\{match['text']} for the character")
            else:
                text += (match["escaped"] or match["text"]).replace("{", "{{").replace("}", "}}")
        text = self.suffixes.sub("{suffix}", text)
        return text if chance == 1 else {"text": text, "chance": chance}, chance

    def _tag(self, line: _Line, words: list[str], block: _Block) -> str | None:
        """Returns the equivalent of a tag in ditseed's templates; None if there is none."""
        match words:
            case ["guid"] | ["random", "uuid"]:
                return "{uuid}"
            case ["first" | "last" as which]:
                return self._file(line, f"{which}.names")
            case ["parentdn"] if not block.is_branch:
                return "{parentdn}"
            case ["file", file] | ["file", file, "random"]:
                return self._file(line, file)
            case ["list", *values] if values:
                return self._pick(line.attribute, _weighted(values))
            case ["sequential", *rest] if all(map(_is_number, rest[:1])):
                if block.is_branch:
                    return str(int(rest[0] if rest else 0))
                start = int(rest[0] if rest else 0) + self.start
                return f"{{number:0:{start}}}" if start else "{number}"
            case ["random", "chars", alphabet, length] if _is_number(length) and int(length) <= _LONGEST:
                return self._pick("letters", _weighted(list(alphabet))) * int(length)
            case ["random", kind, *rest]:
                return self._random(kind.lower(), rest)
        return None

    def _random(self, kind: str, words: list[str]) -> str | None:
        numbers = [int(word) for word in words if _is_number(word)]
        if len(numbers) != len(words):
            return None
        match kind, numbers:
            case "telephone", []:
                return "+1 {digits:3} {digits:3} {digits:4}"
            case "numeric", [length] if length <= _MOST_DIGITS:
                return f"{{digits:{length}}}"
            case "numeric", [low, high]:
                return f"{{between:{low}:{high}}}"
            case _, [length] if kind in _CHARS:
                return f"{{chars:{_CHARS[kind]}:{length}}}"
            case _, [least, most] if kind in _CHARS:
                return f"{{chars:{_CHARS[kind]}:between:{least}:{most}}}"
        return None

    def _file(self, line: _Line, name: str) -> str:
        file = name if (self.path.parent / name).is_file() else _SHIPPED.get(name)
        if file is None:
            raise _Refusal(line.number, f"<file:{name}>: no such file beside the template")
        return self._pick(name, file)

    def _pick(self, hint: str, content: object) -> str:
        """Returns a {pick} tag for a list with this content. Adds the list unless an equal one exists."""
        stem = re.sub(r"[^\w-]", "-", hint)
        equal = [name for name, other in self.lists.items() if other == content]
        names = [stem, *(f"{stem}-{number}" for number in range(2, len(self.lists) + 3))]
        name = equal[0] if equal else next(name for name in names if name not in self.lists)
        self.lists[name] = content
        return f"{{pick:{name}}}"


def _no_equivalent(line: _Line, what: str) -> _Refusal:
    return _Refusal(line.number, f"{what} has no equivalent in ditseed's templates")


def _weighted(values: list[str]) -> object:
    """Returns {"a": 2, "b": 1} for ["a;2", "b"]. Adds up weights of equal values. Returns a list if all are 1."""
    weights: Counter[str] = Counter()
    for value in values:
        text, _, weight = value.rpartition(";")
        weights[text if text and _is_number(weight) else value] += int(weight) if text and _is_number(weight) else 1
    positive = {value: weight for value, weight in weights.items() if weight}
    return list(positive) if set(positive.values()) == {1} else positive


def _key(attribute: str) -> str:
    return _SYNONYMS.get(attribute.lower(), attribute.lower())


def _compact(dn: str) -> str:
    return re.sub(r"\s*([,=])\s*", r"\1", dn)


def _relative(dn: str, suffix: str) -> str | None:
    """Returns "ou=People" for "ou=People,dc=example" below "dc=example"; "" for the suffix itself; None for others."""
    if dn.lower() == suffix.lower():
        return ""
    return dn[: -len(suffix) - 1] if dn.lower().endswith(f",{suffix.lower()}") else None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}", text) is not None


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(_assignments(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # A JSON string is a valid TOML string, except that TOML does not allow DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _assignments(values: Mapping[str, object]) -> list[str]:
    keys = {key: key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml(key) for key in values}
    return [f"{keys[key]} = {_toml(value)}" for key, value in values.items()]
