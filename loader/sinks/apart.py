"""Native calls that change a database through LMDB, which maps it: made in a process apart, and followed from here."""

from __future__ import annotations

import base64
import json
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from loader.child import Child
from loader.mdb import isolated
from loader.progress import Meter, WholeFile

_EVERY = 0.25  # seconds between two words of how far it is


class Remote:
    """What the child has counted so far, as `Meter` wants it of a native call."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.entries, self.bytes, self.stage = 0, 0, ("", 0, 0)
        self.files: Sequence[WholeFile] = ()  # it reads no LDIF
        self.open_ends: Sequence[str] = ()

    def cancel(self) -> None:
        self.child.kill()

    def listen(self) -> dict[str, Any]:
        """Its last word."""
        assert self.child.process.stdout is not None
        heard: dict[str, Any] = {}
        for line in self.child.process.stdout:
            heard = json.loads(line)
            if "stage" in heard:
                self.entries, self.bytes = heard["entries"], heard["bytes"]
                name, done, total = heard["stage"]
                self.stage = name, done, total
        return heard


@contextmanager
def started(work: Callable[[str], dict[str, Any]], task: object, meter: Meter) -> Iterator[Remote]:
    """The process that does `work`, which a module has under its name, with the `task` that `received` makes of what it
    is given. It tells how far it is while it is `telling`."""
    asked = base64.b64encode(pickle.dumps(task)).decode()
    with isolated.started(work, asked) as child:
        remote = Remote(child)
        with meter.counting(remote), meter.following(remote):
            yield remote


# --- in the process apart ------------------------------------------------------------------------


def received(asked: str) -> Any:
    return pickle.loads(base64.b64decode(asked))


@contextmanager
def telling(step: str) -> Iterator[Meter]:
    meter, ended = Meter(step), threading.Event()
    teller = threading.Thread(target=_tell, args=(meter, ended))
    teller.start()
    try:
        yield meter
    finally:
        ended.set()
        teller.join()


def _tell(meter: Meter, ended: threading.Event) -> None:
    while True:
        isolated.say({"entries": meter.entries, "bytes": meter.bytes, "stage": meter.stage})
        if ended.wait(_EVERY):
            return
