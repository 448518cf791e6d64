"""`ditseed export` on real servers: the LDIF is the tree, loads in the manifest's order, and resumes."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from fixtures import replication
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Settings, peer_dn
from fixtures.trees import Load, write_hard_tree, write_people
from tests.support.command import Done, ditseed
from tests.support.dumped import text_of
from tests.support.killing import KILL_AT
from tests.support.seeding import bind
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
BUSY = "dn: {}\nchangetype: modify\nreplace: description\ndescription: since the load\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    home = tmp_path_factory.mktemp("source")
    write_people(home / "people.ldif", SUFFIX, 1000)
    write_hard_tree(home / "hard.ldif", SUFFIX)
    settings = Settings()
    limits = f'limits dn.exact="{peer_dn()}" size=unlimited size.prtotal=unlimited'
    server = replication.provider(replace(settings, limits=(*settings.limits, limits)))
    server.slapadd(home / "people.ldif")
    server.slapadd((home / "hard.ldif").read_text().split("\n\n", 1)[1])  # without the suffix entry
    with server:
        server.ldapmodify(BUSY.format(SUFFIX))
        yield server


def _export(source: Slapd, out: Path, *more: object, env: dict[str, str] | None = None) -> Done:
    return ditseed("export", *bind(source), "-b", source.suffix, "-o", out, *more, env=env)


def _shards(out: Path) -> list[Path]:
    """In the order of the manifest."""
    return [out / shard["name"] for shard in json.loads((out / "manifest.json").read_text())["shards"]]


def _text(out: Path) -> str:
    return "".join(map(text_of, _shards(out)))


def test_a_dry_run_tells_what_it_would_export_and_nothing_is_made(source: Slapd, tmp_path: Path) -> None:
    """Nor by an export that is refused: nothing was read."""
    found = _export(source, tmp_path / "out", "--dry-run", "--json").ok().facts
    assert (found["base"], found["output"]) == (SUFFIX, str(tmp_path / "out"))
    assert found["entries"] in (source.slapcat().count("\ndn:"), "unknown to the server")
    assert set(found["context_csns"]) == source.context_csns()
    assert _export(source, tmp_path / "out", "-y", source.password_file).status == 31
    assert not [*tmp_path.iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("compress", ["zstd", "none"])
def test_the_export_is_the_tree(source: Slapd, tmp_path: Path, compress: str) -> None:
    """Every attribute, operational ones included, of every entry; nothing that the server computes. Plain slapadd loads
    it in the order of the manifest."""
    _export(source, tmp_path / "out", "--compress", compress, "--pieces", 4, "--page", 100).ok()
    shards = _shards(tmp_path / "out")
    assert len(shards) > 3
    assert all(path.name.endswith(".ldif.zst" if compress == "zstd" else ".ldif") for path in shards)
    text = _text(tmp_path / "out")
    assert tree(text) == tree(source.slapcat())
    told = {line[12:].strip() for line in text.splitlines() if line.startswith("contextCSN:")}
    assert told == source.context_csns()
    ditseed("compare", tmp_path / "out", source.config_path, "-b", SUFFIX).ok()
    with closing(Slapd(Settings())) as target:
        target.slapadd(text)
        assert tree(target.slapcat()) == tree(source.slapcat())


def test_the_manifest_tells_the_truth(source: Slapd, tmp_path: Path) -> None:
    out = tmp_path / "out"
    facts = _export(source, out, "--json").ok().facts
    manifest = json.loads((out / "manifest.json").read_text())
    assert {path.name for path in out.iterdir()} == {
        "manifest.json", ".ditseed", *(shard["name"] for shard in manifest["shards"])
    }  # fmt: skip
    for shard in manifest["shards"]:
        content = (out / shard["name"]).read_bytes()
        assert (len(content), xxhash.xxh3_128_hexdigest(content)) == (shard["bytes"], shard["checksum"])
        assert stat.S_IMODE((out / shard["name"]).stat().st_mode) & 0o077 == 0  # they hold userPassword
    assert manifest["entries"] == facts["entries"] == len(tree(source.slapcat()))
    assert manifest["base"] == SUFFIX
    assert set(manifest["context_csns"]) == source.context_csns()


@pytest.mark.long
def test_restart_leaves_nothing_of_the_time_before(source: Slapd, tmp_path: Path) -> None:
    """Fewer shards than before, and a run that was killed while it read: neither is mixed in."""
    out = tmp_path / "out"
    _export(source, out, "--pieces", 9).ok()
    many = len(_shards(out))
    assert _export(source, out, "--pieces", 8, "--restart", env={"DITSEED_KILL_AT": "late.start"}).status == -9
    _export(source, out, "--pieces", 2, "--restart").ok()
    shards = _shards(out)
    assert len(shards) < many
    assert {path.name for path in out.glob("*.ldif*")} == {path.name for path in shards}
    assert tree(_text(out)) == tree(source.slapcat())


def test_a_subtree(source: Slapd, tmp_path: Path) -> None:
    base = f"ou=Lagos,ou=people,{SUFFIX}"
    _export(source, tmp_path / "out", "-b", base).ok()
    text = _text(tmp_path / "out")
    assert 100 < len(tree(text)) < 400
    assert all(base in line for line in text.splitlines() if line.startswith("dn: "))


@pytest.mark.long
def test_the_only_suffix_is_the_default(source: Slapd, tmp_path: Path) -> None:
    """As is the bind by ldapi and SASL EXTERNAL. The test server has a second suffix, so it takes BASE of ldap.conf."""
    (tmp_path / "ldap.conf").write_text(f"BASE {SUFFIX}\nURI {source.ldapi_uri}\n")
    env = {"LDAPCONF": str(tmp_path / "ldap.conf")}
    done = ditseed("export", "-Y", "EXTERNAL", "-o", tmp_path / "out", "--json", env=env)
    assert done.ok().facts["base"] == SUFFIX
    assert done.facts["entries"] == len(tree(source.slapcat()))


def test_a_server_without_syncprov(tmp_path: Path, form: Form) -> None:
    """No contextCSN then, and the report says why."""
    server = Slapd(Settings(), form=form)
    write_people(tmp_path / "people.ldif", SUFFIX, 50)
    server.slapadd(tmp_path / "people.ldif")
    with server:
        done = _export(server, tmp_path / "out").ok()
        assert "no syncprov" in done.out
        text = _text(tmp_path / "out")
        assert tree(text) == tree(server.slapcat())
        assert "contextCSN" not in text


BULK = 20_000
LOOKED = 2500  # entries: those of the sample, and what access control is judged by
TWO = ("--jobs", 2, "--compress", "none")


@pytest.fixture(scope="module")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """Loaded by server ID 000, in use since; its monitor does not show how many entries there are."""
    ldif = tmp_path_factory.mktemp("ldif") / "people.ldif"
    with closing(replication.provider()) as made:
        write_people(ldif, made.suffix, BULK, load=Load(time.time() - 1, 0))
        made.slapadd(ldif, "-S", "0", "-w")
        with made:
            made.ldapmodify(BUSY.format(made.suffix))
            yield made


def _sent(source: Slapd, mark: int) -> list[int]:
    return [int(one) for one in re.findall(r"nentries=(\d+)", "\n".join(source.log_lines("SEARCH RESULT", mark)))]


def test_pieces_of_a_tree_that_was_loaded_at_once_are_even_and_hold_every_entry(bulk: Slapd, tmp_path: Path) -> None:
    """Planning looks at few of them."""
    out, mark = tmp_path / "out", bulk.log_size()
    assert _export(bulk, out, *TWO, env={KILL_AT: "plan.recorded"}).status == -9
    assert sum(_sent(bulk, mark)) < LOOKED
    mark = bulk.log_size()
    said = _export(bulk, out, *TWO, env={KILL_AT: "read.recorded"}).err
    assert "2 ranges of entryUUID (loaded in bulk)" in said
    large = sorted(_sent(bulk, mark))[-2:]
    assert sum(large) == len(re.findall("^dn:", bulk.slapcat(), re.M))
    assert max(large) < 2 * min(large)
