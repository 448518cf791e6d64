"""Checks: sound databases pass, and every kind of damage made here is found."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import people
from loader.declared import AuditResources
from loader.errors import LoaderError, MdbDamaged, SystemFailed, UsageProblem
from loader.mdb import contents, copy, environment, meta
from loader.mdb.verify import audit, verify
from loader.progress import Meter, Staged
from tests.support import mapped
from tests.support.refusal import error_as_nobody
from tests.support.require import require_root

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that slapadd made, as a data file."""
    server = Slapd(Settings())
    server.slapadd("".join(people(SUFFIX, 400)))
    path = tmp_path_factory.mktemp("sound") / "data.mdb"
    shutil.copy(server.database_dir / "data.mdb", path)
    server.close()
    os.truncate(path, meta.read_meta(path).used)
    return path


@pytest.fixture
def broken(sound: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copy(sound, tmp_path / "data.mdb"))


def check(path: Path, level: str) -> int | None:
    return verify(path, level, Meter("verify")).entries


@pytest.mark.slow
@pytest.mark.parametrize("level", ["quick", "pages", "tree"])
def test_a_sound_database(sound: Path, level: str) -> None:
    assert check(sound, level) == check(sound.parent, level) == 423
    assert verify(sound, level, Meter("verify")).level == level


class Kept(Meter):
    """What a native call told of its stages when it ended."""

    last: tuple[str, int, int] = ("", 0, 0)

    @contextlib.contextmanager
    def following(self, staged: Staged) -> Iterator[None]:
        with super().following(staged):
            yield
        self.last = staged.stage


def test_progress_comes_to_its_end(sound: Path) -> None:
    """In a small database too, all of whose parts are shorter than the way between two words of progress."""
    meter = Kept("verify")
    verify(sound, "tree", meter)
    name, done, total = meter.last
    assert (name, total) == ("entries", 423)
    assert done >= total


def test_a_sparse_file_is_sound(broken: Path) -> None:
    os.truncate(broken, 10 << 30)
    assert check(broken, "pages") == 423


def test_levels() -> None:
    with pytest.raises(UsageProblem):
        check(Path("/"), "thorough")
    assert check(Path("/nowhere"), "none") is None


@pytest.mark.parametrize("level", ["quick", "pages", "tree"])
@pytest.mark.parametrize("keep", [0.9, 0.5, 0.05])
def test_a_cut_file(broken: Path, level: str, keep: float) -> None:
    os.truncate(broken, int(broken.stat().st_size * keep))
    with pytest.raises(MdbDamaged):
        check(broken, level)


def test_a_damaged_file_never_ends_us(sound: Path, tmp_path: Path) -> None:
    """liblmdb may crash on such files; it does so in the process apart."""
    for seed in range(6):
        path, chance = Path(shutil.copy(sound, tmp_path / "data.mdb")), random.Random(seed)
        with path.open("r+b") as file:
            for page in chance.sample(range(2, meta.read_meta(path).pages), 200):
                file.seek(4096 * page)
                file.write(chance.randbytes(4096))
        with pytest.raises(LoaderError):
            check(path, "pages")
        with contextlib.suppress(LoaderError):
            check(path, "quick")
        with contextlib.suppress(LoaderError):
            contents.summarise(path)
        path.unlink()


def test_an_entry_missing_from_the_tree(broken: Path) -> None:
    with mapped.opened(broken, writable=True) as opened:
        entries = environment.require_table(opened, "id2e")
        with opened.begin(write=True) as transaction:
            assert transaction.delete(environment.ID.pack(7), db=entries)
    with pytest.raises(MdbDamaged, match="422 entries"):
        check(broken, "quick")


def test_a_copy_made_while_writing_is_found(sound: Path, tmp_path: Path) -> None:
    """What `cp` of a live file gives: the end of one moment and the beginning of another."""
    (tmp_path / "data.mdb").write_bytes(sound.read_bytes())
    half = sound.read_bytes()[: sound.stat().st_size // 2]
    with mapped.opened(tmp_path, writable=True) as opened:
        entries = environment.require_table(opened, "id2e")
        for number in range(50):
            with opened.begin(write=True) as transaction:
                transaction.delete(environment.ID.pack(10 + number), db=entries)
                transaction.put(environment.ID.pack(1000 + number), bytes(8000), db=entries)
    later = (tmp_path / "data.mdb").read_bytes()
    (tmp_path / "data.mdb").write_bytes(later[:8192] + half[8192:] + later[len(half) :])
    with pytest.raises(MdbDamaged):
        check(tmp_path, "pages")


@pytest.mark.parametrize("call", ["audit", "compact", "plain", "page_record"])
def test_a_file_of_another_account_is_not_damaged(sound: Path, short_tmp: Path, call: str) -> None:
    require_root()
    short_tmp.chmod(0o777)
    path = Path(shutil.copy(sound, short_tmp / "data.mdb"))
    path.chmod(0o600)
    page = sound.read_bytes()[:4096]
    error = error_as_nobody(lambda: native(call, path, short_tmp / "copy", page))
    assert error.startswith(f"storage.not_permitted: no permission to open {path}; Run as root")


def test_an_error_of_the_operating_system_is_not_damage(tmp_path: Path) -> None:
    """A directory can be opened, and not be read. With so many names it is as long as what is to be copied."""
    path = tmp_path / "data.mdb"
    path.mkdir()
    for number in range(400):
        (path / f"{number:0200}").touch()
    with pytest.raises(SystemFailed) as failed:
        native("plain", path, tmp_path / "copy", b"", path.stat().st_size)
    assert str(failed.value) == f"{path}: Is a directory"


def native(call: str, path: Path, copied: Path, page: bytes, length: int = 8192) -> None:
    """One call of the native core that opens the data file; `page`: a sound meta page."""
    meter = Meter("native")
    if call == "audit":
        audit(path, "tree", AuditResources(), meter)
    elif call == "plain":
        copy.plain(path, copied, bytes(8192), length, None, meter)
    elif call == "compact":
        copy.compact(path, copied, page, meter)
    else:
        copy.page_record(path, page)
