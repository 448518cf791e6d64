"""Named points at which a test may end the process as `kill -9` would.

Every step of a run has three of its own (see steps.py); long ones add one in their middle.
"""

from __future__ import annotations

import os
import signal

from loader.defaults import ENV_KILL_AT


def killpoint(name: str) -> None:
    """Die here when DITSEED_KILL_AT names this point."""
    if os.environ.get(ENV_KILL_AT) == name:
        os.kill(os.getpid(), signal.SIGKILL)
