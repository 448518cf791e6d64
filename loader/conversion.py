"""What slapd leaves out when it converts a slapd.conf to cn=config, put back from the text. Pure words.

slapd -f and slapadd -f do as the text says. The conversion that slapcat prints is made from what slapd keeps in memory,
and is not always what it was told:

- two of the kinds subinitial, subany and subfinal of one index: it shows one of them, or all three (index.c,
  slap_index2bv);
- `attributeoptions` without an option, which takes "lang-" away (ad.c, ad_unparse_options);
- the place of definitions that stand in the slapd.conf itself: in cn=config they come before those of included files,
  on which they may depend;
- the quotes around a path with spaces (config.c, config_get_vals), so that slapd could not read its own conversion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from loader import indexes, slapd_conf, words
from loader.config import Entry
from loader.indexes import Index, Indexes
from loader.schema import ROOT
from loader.slapd_conf import Statement
from loader.values import Attributes

_DEFINITIONS = ("olcLdapSyntaxes", "olcAttributeTypes", "olcObjectClasses", "olcDitContentRules")
_OWN_SCHEMA = "slapd.conf"  # the name of their entry
_INDEX, _OPTIONS = "olcDbIndex", "olcAttributeOptions"
_PATHS = ("olcdbdirectory", "olcpidfile", "olcargsfile", "olcmodulepath", "olclogfile")
_NAMES = re.compile(r"\(\s*(\S+)\s+NAME\s+(?:'([^']*)'|\(([^)]*)\))")


def require_readable(entries: Sequence[Entry]) -> list[Entry]:
    """As a running server shows them, which may have made them of a slapd.conf: paths are quoted where need be."""
    return [(name, _with_paths(attributes, words.as_single)) for name, attributes in entries]


def restored(converted: Sequence[Entry], found: Sequence[Statement]) -> list[Entry]:
    """`converted`: the entries that slapcat made of these statements."""
    told = _indexes(found, _names(converted))
    entries = [(name, _mended(name, attributes, found, told)) for name, attributes in converted]
    return _in_order(entries)


def _in_order(entries: Sequence[Entry]) -> list[Entry]:
    """With the definitions of cn=config in a schema entry of their own, behind the others. Macros depend on none."""
    schemas = [at for at, (name, _) in enumerate(entries) if name.lower().endswith("," + ROOT)]
    own = {
        key: values
        for name, attributes in entries
        for key, values in attributes.items()
        if name.lower() == "cn=config" and key in _DEFINITIONS
    }
    if not schemas or not own:
        return list(entries)
    rest = [(name, _without(own, attributes)) for name, attributes in entries]
    name = f"{{{len(schemas)}}}{_OWN_SCHEMA}"
    made = {"objectClass": [b"olcSchemaConfig"], "cn": [name.encode()], **own}
    rest.insert(schemas[-1] + 1, (f"cn={name},{ROOT}", made))
    return rest


def _without(own: Attributes, attributes: Attributes) -> Attributes:
    return {key: values for key, values in attributes.items() if values is not own.get(key)}


def _mended(
    name: str, attributes: Attributes, found: Sequence[Statement], told: Mapping[str, Indexes]
) -> Attributes:
    changed = _with_paths(attributes, words.as_value)
    # An overlay may have databases of its own: olcDatabase={1}ldap,olcOverlay={0}chain,...
    number = re.fullmatch(r"olcDatabase=\{(\d+)\}[^,]*,cn=config", name, re.IGNORECASE)
    if number and number[1] in told:
        changed.update(_joined(attributes.get(_INDEX, ()), told[number[1]]))
    if name == "cn=config" and _OPTIONS not in changed and _has_options(found):
        changed[_OPTIONS] = [b""]
    return changed


def _with_paths(
    attributes: Attributes, written: Callable[[str], str]
) -> dict[str, Sequence[bytes]]:
    paths = {key: values for key, values in attributes.items() if key.lower() in _PATHS}
    return {
        **attributes,
        **{
            key: [os.fsencode(written(os.fsdecode(value))) for value in values]
            for key, values in paths.items()
        },
    }


def _has_options(found: Sequence[Statement]) -> bool:
    return any(one.keyword == "attributeoptions" for one in found)


def _joined(converted: Sequence[bytes], told: Indexes) -> dict[str, list[bytes]]:
    """The indexes that the conversion shows, and the kinds that the text adds: an included file may be out of sight."""
    shown = indexes.parse(value.decode() for value in converted)
    both = indexes.parse(map(str, (*shown.values(), *told.values())))
    lines = [str(one).encode() for one in both.values()]
    return {_INDEX: lines} if lines else {}


def _indexes(found: Sequence[Statement], names: Mapping[str, str]) -> dict[str, Indexes]:
    """Of each mdb database by its number: slapd counts them as they come, without frontend and config."""
    databases = [one for one in slapd_conf.sections(found) if one[0].keyword == "database"]
    counted = [one for one in databases if one[0].said.lower() not in ("frontend", "config")]
    return {
        str(number): _of_section(section, names)
        for number, section in enumerate(counted, start=1)
        if section[0].said.lower() == "mdb"
    }


def _of_section(section: Sequence[Statement], names: Mapping[str, str]) -> Indexes:
    lines = (
        " ".join(map(words.as_value, one.words[1:])) for one in section if one.keyword == "index"
    )
    given = indexes.parse(lines).values()
    spelt = (Index(_canonical(one.attribute, names), one.kinds) for one in given)
    return {one.key: one for one in spelt}


def _canonical(description: str, names: Mapping[str, str]) -> str:
    """An attribute description as slapd writes it: the first name of the type, options in order."""
    name, *options = description.split(";")
    return ";".join([names.get(name.lower(), name), *sorted(map(str.lower, options))])


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    """Every name and OID of an attribute type, in lower case -> its first name."""
    return {alias.lower(): names[0] for names in _of_types(entries) for alias in names}


def _of_types(entries: Sequence[Entry]) -> Iterator[list[str]]:
    for _, attributes in entries:
        for value in attributes.get("olcAttributeTypes", ()):
            found = _NAMES.search(value.decode(errors="replace"))
            if found:
                several = re.findall(r"'([^']*)'", found[3] or "")
                yield [*([found[2]] if found[2] else several), found[1]]
