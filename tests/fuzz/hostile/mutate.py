"""Mutations that know JSON and LDIF, and those of bytes. Each follows from the random numbers that it is given."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

WORDS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308),
    *("", "x", "0", "-1", "NaN", ".", "..", "../x", "/etc/passwd", "a\0b", "a\nb", "é", "\ud800", "x" * 5000),
    *([], {}, [[]], [None], {"": None}, [1, "a", None], "2026-01-01T00:00:00", "9999-12-31T23:59:59+00:00"),
    *("00000000000000000000000000000000", "20261121070501.123456Z#000000#001#000000", "dc=example,dc=com"),
)
TOKENS = (*rb'" { } [ ] , : \u0000 \ud800 null NaN 1e999'.split(), b"\xff", b"\n", b" ")


def json_text(chance: Random, facts: Any) -> bytes:
    """`facts` with one to three of its nodes changed; now and then its text too."""
    changed = copy.deepcopy(facts)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        changed = _node(chance, changed)
    text = json.dumps(changed, indent=chance.choice((None, 2))).encode()
    return octets(chance, text, TOKENS) if chance.random() < 0.25 else text


def _node(chance: Random, node: Any) -> Any:
    """Goes down at random, and changes what it comes to."""
    if isinstance(node, dict) and node and chance.random() < 0.85:
        return _in_dict(chance, node)
    if isinstance(node, list) and node and chance.random() < 0.8:
        return _in_list(chance, node)
    return _leaf(chance, node)


def _in_dict(chance: Random, node: dict[str, Any]) -> dict[str, Any]:
    key = chance.choice(list(node))
    what = chance.random()
    if what < 0.1:
        del node[key]
    elif what < 0.15:
        node[str(chance.choice(WORDS))] = node.pop(key)
    elif what < 0.2:
        node[chance.choice(("", "x", "format", "include", key.upper()))] = _word(chance)
    elif what < 0.3:
        other = chance.choice(list(node))
        node[key], node[other] = node[other], node[key]
    else:
        node[key] = _node(chance, node[key])
    return node


def _in_list(chance: Random, node: list[Any]) -> list[Any]:
    at, what = chance.randrange(len(node)), chance.random()
    if what < 0.2:
        del node[at]
    elif what < 0.3:
        node.insert(at, copy.deepcopy(chance.choice(node)))
    elif what < 0.4:
        chance.shuffle(node)
    else:
        node[at] = _node(chance, node[at])
    return node


def _leaf(chance: Random, node: Any) -> Any:
    if isinstance(node, bool) or chance.random() < 0.4:
        return _word(chance)
    if isinstance(node, int):
        return chance.choice((node + 1, node - 1, -node, node * 2, node // 2, node ^ 1 << chance.randrange(70)))
    if isinstance(node, float):
        return chance.choice((node + 1, -node, node * 1e300))
    if isinstance(node, str) and node:
        text = octets(chance, node.encode("utf-8", "surrogatepass"), (b"/", b"..", b"\0", b"0", b"#"))
        return text.decode("utf-8", "surrogateescape")
    return _word(chance)


def _word(chance: Random) -> Any:
    return copy.deepcopy(chance.choice(WORDS))


def octets(chance: Random, text: bytes, tokens: tuple[bytes, ...] = TOKENS) -> bytes:
    """One to four changes of bytes."""
    found = bytearray(text)
    for _ in range(chance.choice((1, 1, 2, 4))):
        chance.choice(_OCTETS)(chance, found, tokens)
    return bytes(found)


def _flip(chance: Random, found: bytearray, tokens: tuple[bytes, ...]) -> None:
    if found:
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)


def _insert(chance: Random, found: bytearray, tokens: tuple[bytes, ...]) -> None:
    at = chance.randrange(len(found) + 1)
    found[at:at] = chance.choice(tokens)


def _cut(chance: Random, found: bytearray, tokens: tuple[bytes, ...]) -> None:
    at = chance.randrange(len(found) + 1)
    del found[at : at + chance.choice((1, 2, 8, 64, len(found)))]


def _again(chance: Random, found: bytearray, tokens: tuple[bytes, ...]) -> None:
    at, to = chance.randrange(len(found) + 1), chance.randrange(len(found) + 1)
    found[to:to] = found[at : at + chance.choice((1, 4, 32, 256))]


_OCTETS: tuple[Callable[[Random, bytearray, tuple[bytes, ...]], None], ...] = (_flip, _insert, _cut, _again)

VALUES = (
    *b"-1 0 08 0x 99999999999999999999 TRUE maybe {0} {-1} {99999999999999999999}x".split(),
    *b'" dc= cn=x, = , dc=example,dc=com ( ) rid= -rw------- -rwz'.split(),
    *(b"", b'"a b', b"a\\", b"\xff\xfe", b"\xc3\xa9", b"x" * 3000, b"default 1,2", b"a,b 1"),
    *(b"( 1.2.3 NAME 'x' )", b"( 1.2.3 NAME ( 'a' 'b' ) SUP x )", b"objectClass eq", b"default pres,eq,sub"),
    b'rid=1 provider=ldap://x searchbase="" type=refreshOnly',
)
MARKS = (b":", b"::", b"\n", b"\n\n", b" ", b"{", b",", b"=", b"\xff")


def ldif_text(chance: Random, lines: list[bytes]) -> bytes:
    """Unfolded lines with one to three of them changed; now and then bytes too."""
    found = list(lines)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _line(chance, found)
    text = b"\n".join(found) + b"\n"
    return octets(chance, text, MARKS) if chance.random() < 0.2 else text


def _line(chance: Random, found: list[bytes]) -> None:
    at, what = chance.randrange(len(found)), chance.random()
    if what < 0.1:
        del found[at]
        found[:] = found or [b""]
    elif what < 0.2:
        found.insert(chance.randrange(len(found)), found[at])
    elif what < 0.25:
        other = chance.randrange(len(found))
        found[at], found[other] = found[other], found[at]
    elif what < 0.35:
        found[at] = octets(chance, found[at], (b":", b" ", b","))
    else:
        found[at] = _other_value(chance, found[at])


def _other_value(chance: Random, line: bytes) -> bytes:
    name, mark, value = line.partition(b":")
    if not mark:
        return chance.choice(VALUES)
    tokens = (b" ", b'"', b"{", b",", b"=")
    other = chance.choice(VALUES) if chance.random() < 0.6 else octets(chance, value.strip(), tokens)
    if chance.random() < 0.5 or b"\n" in other:
        return name + b":: " + base64.b64encode(other)
    return name + b": " + other
