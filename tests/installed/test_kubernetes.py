"""The manifests of fixtures/kubernetes, with the wheel in their image, as podman plays them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import s3
from fixtures.installed import InstallError, Packages, podman_configured, run
from fixtures.kube_pods import ACCOUNT, SUFFIX, Pods, image, missing_pods
from fixtures.waiting import until
from loader.mdb.contents import entry_count
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = [pytest.mark.container, pytest.mark.long]


@pytest.fixture(scope="module")
def built(made: Packages) -> Iterator[str]:
    require(missing_pods())
    with image(made.wheel) as name:
        yield name


@pytest.fixture
def pods(built: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pods]:
    with podman_configured() as settings:
        found = Pods(built, settings, tmp_path, getattr(request, "param", ACCOUNT))
        try:
            yield found
        finally:
            found.close()


SOME = 20_000


@pytest.mark.parametrize(
    "entries", [SOME, pytest.param(1_000_000, marks=(pytest.mark.heavy, pytest.mark.timeout(7200)))]
)
def test_three_pods(pods: Pods, tmp_path: Path, entries: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The third is added later, is killed while it is seeded, and goes on when it is played again; then it is equal
    to its peer, and follows it."""
    pods.play(0)
    password, replicator = pods.password_file("admin"), pods.password_file("replicator")

    def write(*arguments: object) -> None:
        ditseed("add", "-H", pods.uri(0), "-D", f"cn=admin,{SUFFIX}", "-y", password, *arguments).ok()

    def assert_equal(number: int) -> None:
        words = ("-D", "cn=replicator", "-y", replicator, "-b", SUFFIX)
        ditseed("replica", "verify", "-H", pods.uri(0), *words, "--consumer", pods.uri(number)).ok()

    ditseed("generate", "people", "-n", entries, "-o", tmp_path / "tree").ok()
    write(tmp_path / "tree")
    shown = [f"{entries:,} entries: the second pod is ready after {ready(pods, 1):.1f} s"]
    assert_equal(1)

    data = pods.volume(f"data-{pods.name(1)}").parents[1] / f"data-{pods.name(2)}" / "_data/data"
    for point in ("stream.unrecorded", "check.start"):
        with pytest.raises(InstallError, match="exited with code 137"):
            pods.play(2, DITSEED_KILL_AT=point)
        assert (data / ".ditseed-seed").exists()
        assert not (data / "data.mdb").exists()
    log = (data / ".ditseed-seed/run.log").read_bytes()
    ready(pods, 2)
    assert (data / ".ditseed-seed/run.log").read_bytes().startswith(log)
    assert_equal(2)
    change = tmp_path / "change"
    change.write_text(f"dn: {SUFFIX}\nchangetype: modify\nreplace: description\ndescription: later\n")
    run("ldapmodify", "-x", "-H", pods.uri(0), "-D", f"cn=admin,{SUFFIX}", "-y", password, "-f", change)
    assert_equal(2)
    inode = (data / "data.mdb").stat().st_ino
    ready(pods, 2)  # as after a restart of its node
    assert (data / "data.mdb").stat().st_ino == inode
    if entries > SOME:
        pods.make_empty(3)
        began = time.monotonic()
        pods.play(3)
        alone = pods.volume(f"data-{pods.name(3)}") / "data"
        until(lambda: (alone / "data.mdb").stat().st_size and entry_count(alone) >= entries // 100)
        shown.append(f"syncrepl alone has one percent of them after {time.monotonic() - began:.1f} s")
    with capsys.disabled():
        print("", *shown, sep="\n")


def ready(pods: Pods, number: int) -> float:
    """Plays a pod. Returns the seconds until its readiness probe succeeds."""
    began = time.monotonic()
    pods.play(number)
    until(lambda: pods.is_ready(number))
    return time.monotonic() - began


@pytest.mark.parametrize("pods", [ACCOUNT, 1234567], indirect=True)
def test_the_cron_job_beside_a_running_slapd(pods: Pods, tmp_path: Path) -> None:
    """It backs up the volume of a running slapd from a PID namespace of its own to S3; also as an account that has no
    name, and only the group 0."""
    pods.play(0)
    ditseed("generate", "people", "-n", "50", "-o", tmp_path / "tree").ok()
    account = ("-D", f"cn=admin,{SUFFIX}", "-y", pods.password_file("admin"))
    ditseed("add", "-H", pods.uri(0), *account, tmp_path / "tree").ok()
    ready(pods, 1)
    assert "DOCTOR OK" in pods.inside(1, "ditseed", "doctor", "--check", "--config", "/var/lib/ldap/slapd.d")
    with s3.running() as store:
        assert "entries" in pods.job(1, f"s3://{s3.BUCKET}/ldap", store.environment)
        assert any(key.endswith("manifest.json") for key in store.keys("ldap/"))
