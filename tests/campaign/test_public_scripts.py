"""Public scripts that call slapadd, slapcat and slapindex do the same with the links of `ditseed shims`.

The scripts are not part of this repository: clone each repository of SCRIPTS into FOLDER/OWNER/NAME, such as
`git clone --depth 1 https://github.com/debops/debops FOLDER/debops/debops`. Each runs unchanged, in its own root and
512 MiB; `public_scripts.sh` makes its configuration, and what else it needs of its distribution:
DITSEED_PUBLIC_SCRIPTS=FOLDER DITSEED_PUBLIC_ENTRIES=1000000 pytest tests/campaign/test_public_scripts.py -m heavy -s
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.limits import memory_group, missing_memory_group
from tests.support.command import COMMAND, ditseed
from tests.support.require import require, require_root

pytestmark = [pytest.mark.slapd, pytest.mark.heavy, pytest.mark.timeout(0)]

FOLDER, ENTRIES = os.environ.get("DITSEED_PUBLIC_SCRIPTS", ""), os.environ.get("DITSEED_PUBLIC_ENTRIES", "20000")
CODE, SHELL = Path(__file__).parents[2], Path(__file__).with_name("public_scripts.sh")
# Repository -> the command that runs in it.
SCRIPTS = {
    "ltb-project/slapd-cli": """
        for action in backup backupconfig reindex restore stop restoreconfig; do ./slapd-cli $action || exit; done""",
    "debops/debops": "bash ansible/roles/slapd/files/usr/local/sbin/slapd-snapshot daily",
    # A copy of univention/univention-corporate-server.
    "smarttargettech/active-directory": "sh management/univention-ldap/univention-ldap-backup",
    "raspbian-packages/openldap": """sh -ec '. /debconf; . debian/slapd.scripts-common
        dump_config; dump_databases; rm /var/lib/ldap/*; load_databases'""",
    "YunoHost/yunohost": """FORCE=true bash hooks/conf_regen/06-slapd post && kill $(cat /run/slapd/slapd.pid) &&
        for hook in backup restore; do bash hooks/$hook/05-conf_ldap /data || exit; done""",
    "osixia/docker-openldap-backup": "slapd-backup 1 data && rm /var/lib/ldap/* && slapd-restore 1 $(ls /data/backup)",
    "bitnami/bitnami-docker-openldap": """as_slapd bash -c '. /opt/bitnami/scripts/libopenldap.sh; eval "$(ldap_env)"
        ldap_create_online_configuration; slapcat -F $LDAP_ONLINE_CONF_DIR -n 0 | grep ^dn'""",
    "Zimbra/zm-ldap-utilities": """cd src/libexec; as_slapd sh -c 'bash zmslapcat /data && bash zmslapcat -c /data &&
        rm /opt/zimbra/data/ldap/mdb/* && gzip -1 /data/ldap.bak && bash zmslapadd /data/ldap.bak.gz &&
        bash zmslapindex uid && bash zmslapcat /data'""",
    "MidnightBSD/mports": "sh /etc/init.d/slapd stop",  # a copy of freebsd/freebsd-ports
    "voxpupuli/puppet-openldap": "puppet resource openldap_database --modulepath /modules",
    "lelutin/backupninja": "bash /ninja",
    "cloudogu/ldap": "for when in pre post; do bash resources/$when-upgrade.sh 2.4.48-4 2.6.7-1 || exit; done",
}
CONF = """include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile /run/slapd/slapd.pid
moduleload back_mdb
database config
access to * by dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage
database mdb
suffix "dc=yunohost,dc=org"
rootdn cn=admin,dc=yunohost,dc=org
directory /var/lib/ldap
maxsize 8589934592
dbnosync
index objectClass,uid,entryUUID,entryCSN eq
"""
# Without what the original generates for the only entry that a script (YunoHost's) adds without these attributes.
PLAIN = "LC_ALL=C sed '/^dn: cn=admins,/,/^$/{/^entry/d;/Timestamp:/d}'"
UUID = rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CHANGING = re.compile(UUID + rb"|\d{8,}(T\d+|[.]\d+)?Z?|\b[0-9a-f]{8}[.][0-9a-f]+ 0x\w+|\d\d:\d\d:\d\d[.]\d+")
OWNER = re.compile(rb"slap\w+: .* belong to openldap, not to root\n")  # what a link says that it does otherwise


@dataclass(frozen=True)
class Result:
    """`files`: what the script has left, with owner, mode, and a checksum of the contents (uncompressed)."""

    status: str
    out: str
    err: str
    files: dict[str, str]


def contents(path: Path) -> str:
    if path.suffix == ".mdb" or not stat.S_ISREG(path.lstat().st_mode) or {"slapd.d", "config"} & {*path.parts}:
        return ""
    reader = {".gz": "zcat", ".zstd": "zstdcat"}.get(path.suffix, "cat")
    with subprocess.Popen(["sh", "-c", f'{reader} "$1" | {PLAIN}', "sh", str(path)], stdout=-1) as process:
        assert process.stdout
        start = process.stdout.read(1 << 20)
        digest = hashlib.sha256(start if len(start) == 1 << 20 else CHANGING.sub(b"", start))
        while piece := process.stdout.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def run(repository: str, base: Path, place: Path, program: str) -> tuple[Result, float]:
    place.mkdir()
    unshare = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "/bin/bash"]
    places = (place, base, FOLDER, CODE, Path(sys.prefix).resolve())
    words = [str(SHELL), "enter", *map(str, places), repository, SCRIPTS[repository], program]
    with memory_group(512 << 20) as group:
        subprocess.run([*group.prefix, *unshare, *words], check=True)
    root, files = place / "root", dict[str, str]()
    assert (root / "entries.ldif").stat().st_size > 200 * int(ENTRIES)
    for name in ("entries.ldif", "data", "var", "tmp", "etc/ldap/slapd.d", "opt/zimbra", "bitnami"):
        for path in (root / name, *(root / name).rglob("*")):
            if os.path.lexists(path) and not {"puppet", "cache", "log"} & {*path.parts}:
                status, known = path.lstat(), CHANGING.sub(b"", bytes(path.relative_to(root))).decode()
                files[known] = f"{status.st_uid}:{status.st_gid} {stat.filemode(status.st_mode)} {contents(path)}"
    out, err = (CHANGING.sub(b"", OWNER.sub(b"", (root / name).read_bytes())).decode() for name in ("out", "err"))
    start, end = map(float, (root / "time").read_text().split())
    result = Result((root / "status").read_text(), out, err, files)
    shutil.rmtree(place)
    return result, end - start


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database, and its LDIF, both made by the originals."""
    require_root()
    require(missing_memory_group())
    path = tmp_path_factory.mktemp("base")
    (path / "db").mkdir()
    (path / "slapd.conf").write_text(CONF)
    (path / "own.conf").write_text(CONF.replace("/var/lib/ldap", f"{path}/db"))
    words = ("generate", "tree", "people", "-n", ENTRIES, "--suffix", "dc=yunohost,dc=org", "-o", "-")
    with open(path / "tree.ldif", "wb") as ldif:
        ditseed(*words, stdout=ldif).ok()
        ldif.write(b"\ndn: ou=groups,dc=yunohost,dc=org\nobjectClass: organizationalUnit\nou: groups\n")
    for tool in ("/usr/sbin/slapadd", "-q", "-l", "tree.ldif"), ("/usr/sbin/slapcat", "-l", "dump.ldif"):
        subprocess.run([*tool, "-f", "own.conf"], check=True, cwd=path)
    return path


@pytest.mark.parametrize("repository", SCRIPTS)
def test_a_public_script_does_the_same(repository: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not Path(FOLDER or "/nowhere", repository).is_dir():
        pytest.skip(f"{repository} is not in the folder that DITSEED_PUBLIC_SCRIPTS names")
    if repository.startswith("voxpupuli"):
        require(None if shutil.which("puppet") else "puppet is not installed")
    base = request.getfixturevalue("base")
    original, before = run(repository, base, tmp_path / "original", "")
    linked, after = run(repository, base, tmp_path / "linked", str(COMMAND))
    print(f"\n{repository}: {len(original.files)} files, {before:.1f} s; with the links {after:.1f} s")
    assert original.status == "0\n", original
    assert linked.files.items() ^ original.files.items() == set()
    assert linked == original
