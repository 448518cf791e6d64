"""Named points at which a test may end the process as `kill -9` would, or stop it while something else happens.

Every step of a run has three of its own (see steps.py); long ones add one in their middle.
"""

from __future__ import annotations

import os
import signal

from loader.defaults import ENV_KILL_AT, ENV_STOP_AT


def killpoint(name: str) -> None:
    """Die here when DITSEED_KILL_AT names this point; wait for SIGCONT when DITSEED_STOP_AT does."""
    if os.environ.get(ENV_KILL_AT) == name:
        os.kill(os.getpid(), signal.SIGKILL)
    if name in os.environ.get(ENV_STOP_AT, "").split(","):
        os.kill(os.getpid(), signal.SIGSTOP)
