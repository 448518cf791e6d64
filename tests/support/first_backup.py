"""A backup of format 1, as ditseed 0.1.0 wrote it before pieces: two entries that slapadd loaded."""

from __future__ import annotations

import base64
import json
from pathlib import Path

MANIFEST = {
    "id": "20260101T021500Z-dc-example-dc-com",
    "made": "2026-01-01T02:15:00+00:00",
    "seconds": 0.279,
    "host": "ldap1",
    "source": "/var/lib/ldap",
    "suffix": "dc=example,dc=com",
    "entries": 2,
    "context_csns": [],
    "newest_csns": ["20261125081853.097591Z#000000#000#000000"],
    "txnid": 2,
    "lmdb_format": 1,
    "page_size": 4096,
    "map_size": 1073741824,
    "machine": "64-bit little-endian (x86_64)",
    "source_apparent": 1073741824,
    "source_allocated": 45056,
    "data_bytes": 45056,
    "stored_bytes": 1013,
    "file": "data.mdb.zst",
    "compression": "zstd",
    "data_sha256": "7313745b700b1026bd52fdb68043d53ba00932e43b98d77bd553d243fe3cd0a8",
    "file_sha256": "f041a140bf6b4ec821484bb7709e603a94b08aa264b84bf5169142fcbedfac3d",
    "with_config": False,
    "ditseed": "0.1.0",
    "format": 1,
}
DATA = """
KLUv/QRYRR8AhmaERxCtOGsKi3HNq1qxu6JAQARQCogApMTXKhIFyXHzf8p292lVUrfdWniAC1coyPJwzWH76OOaxFR4g8BVZGqM
l/bQr273lzIFbgBxAGoAttONIagEz7Ejt38I4Fi+/SiZLHyhpCL54AU9o4CBlZVPigKUmFh6knfiYzm78ypD8+2UbVEx8sUkzbnt
74VuQg1EHkIeododXQQiGdGBW0E0uh1CHotsbbW23uJqx/gD+opR7370yZUDipqcuw/2Ys4EhwQRKXuuzbV5Y8tVDBog51tnUUak
IN46nEnb97xoK1zeOuuSOjHzZk2Tjt2xyLnwm3dxbolLc2kubbdK20Rl1yYqtsRxhHzBzBCGbImjxpNsaQsgTWDSpFVgJl8wlIS1
ZuinAyC6ufbKiG4uHRHKM3QQQz8if/0710H7ato6z9G+bvw1QMf/qRquiVhAtUnbrxni+NsErzA2S8VZLJX9HY4N9YDINCRj4s/9
BWmGKbIYWW6hYWaYykizXBDjKkfU3GboZkvXdE9uyz2vzM1wN9wPl8QtbTr/vx2FuCEwavXUamvdarW12lo976NG9YmqzzI00ZG7
4GrN87wQL6TlY6VULI+kpSS1+lZeCvw+E9ADR87SHMPWKf5h4WaGgQlCYcBIxYQULJbaH0iuUOMLi5UaTU4gCK5OH8r7TiiXqDp5
LlbJKrVinZbnyis80TINA4DgqGFNNDIyIiJJkkJaA/ACkZmRkiYPEuAgYaBnQYgYxAxBRCCBiIhEIhKKiAhJyx0TYOIhRmGO5nqK
BgAac3z/nfF45fpWEBHhLqkNPl68X5hVX6AzwnZk7MzdN9lP27qwQwSuygOwvMFHbdVOmwRuw/JbAxXWy4bOBwTZVw4rt31+qkCH
I0IUguRRF0aQ4Oe2/V788o3kiBuaQ2rDHHFoX17RszytRTFnP40PK9qNGYcT/THrKhL8YaTfxYiRFb/ljxsiVmPcX00CCJ4DSMKR
yDP+R0VYP0RwOPsRSdL6C0r+vQyvb2f3TrPki0jeifuXD/H1yx746stMggNl+hsoR/CuAPvgaT5QAQGbMwU8Tt8cqPlGUiNyLBji
A+AfkIeI/KID0DVnQG2rWPiAVo+rAuxy74mFG27ZBYpeIzOwvq6qwNKF+unvUsaRghoIaPg5nV1xdPn2raYfRZtr2DbrT/4dotPE
YdDo6/zGXXfgLgOwTN9744vdVuP/weRitgWL+ykri2CM9jZ44eQ1fYW82/q+83Ldk4ApoaHUlNWfZqL9c6YkYLY/gfoA+NNww9lU
SKs3twHQ0r4+R6DjNQUkC7PHnCr9WFRQ/O2rT00ushN8DCMu9hs=
"""


def first_format(repo: Path, **facts: object) -> Path:
    """Put it into a repository; its directory. `facts`: what its manifest says otherwise."""
    place = repo / str(MANIFEST["id"])
    place.mkdir(mode=0o700, parents=True)
    (place / "data.mdb.zst").write_bytes(base64.b64decode(DATA))
    (place / "manifest.json").write_text(json.dumps(MANIFEST | facts, indent=2))
    return place
