"""The packages are made once, by whichever worker comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.debian import alone
from fixtures.installed import QUICK, ROOT, Packages, run
from tests.support.packaging import missing_packaging
from tests.support.require import require


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Packages:
    """The wheel and the .deb; of a core built quickly, unless -m heavy asks for the true ones."""
    require(missing_packaging())
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if hasattr(request.config, "workerinput") else base) / "packages"
    with alone(place):
        if not place.is_dir():
            partial: Path = place.with_name("packages.partial")
            variables = {} if "heavy" in (request.config.option.markexpr or "") else QUICK
            run(ROOT / "bin/package", "--apt", partial, **variables)
            partial.rename(place)
    return Packages(next(place.glob("*.whl")), next(place.glob("*.deb")))
