"""What of a schema decides how entries and index keys are stored, compared with that of another configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loader.sinks.mdb import Schema


@dataclass(frozen=True)
class Definition:
    """builtin: compiled into slapd. stored: what decides how values are stored; keys: what besides decides their index
    keys."""

    name: str
    builtin: bool
    stored: str
    keys: str

    def differs(self, other: Definition) -> bool:
        """Two versions of slapd may differ in what is compiled in."""
        same = (self.stored, self.keys) == (other.stored, other.keys)
        return not same and not (self.builtin and other.builtin)


@dataclass(frozen=True)
class Difference:
    """index_only: values are stored as before, and index keys are made otherwise."""

    text: str
    index_only: bool


@dataclass(frozen=True)
class SchemaFacts:
    """By all names and the OID, in lower case."""

    attributes: dict[str, Definition]
    classes: dict[str, Definition]

    @classmethod
    def of(cls, schema: Schema) -> SchemaFacts:
        found: dict[str, dict[str, Definition]] = {"attribute": {}, "class": {}}
        for kind, name, names, builtin, stored, keys in schema.facts():
            one = Definition(name, builtin, stored, keys)
            found[kind] |= {text.lower(): one for text in names}
        return cls(found["attribute"], found["class"])

    def is_builtin(self, description: str) -> bool:
        one = self.attributes.get(_base(description))
        return one is not None and one.builtin

    def called(self, description: str) -> str:
        """In lower case, with the first name of the type; as it is, if the type is unknown."""
        base, semicolon, options = description.lower().partition(";")
        one = self.attributes.get(base)
        return f"{one.name.lower() if one else base}{semicolon}{options}"

    def lacks_class(self, before: SchemaFacts) -> bool:
        return any(name not in self.classes for name in before.classes)

    def differences(self, before: SchemaFacts, used: Iterable[str]) -> tuple[Difference, ...]:
        """Of the attributes that are `used`, and of object classes, which have other superiors."""
        found = [self._difference(before, _base(name)) for name in used]
        superiors = [
            Difference(f"object class {one.name}", True)
            for name, one in before.classes.items()
            if name in self.classes and one.differs(self.classes[name])
        ]
        return (*(one for one in found if one is not None), *superiors)

    def _difference(self, before: SchemaFacts, name: str) -> Difference | None:
        one, other = before.attributes.get(name), self.attributes.get(name)
        if one is None or other is None or not one.differs(other):
            return None
        text = f"{other.name} is stored by {one.stored}, and the configuration has {other.stored}"
        return Difference(text, one.stored == other.stored)


def _base(description: str) -> str:
    return description.partition(";")[0].lower()
