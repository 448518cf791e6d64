#!/usr/bin/python3 -I
"""ditseed as the Debian package has it: its own packages before the distribution's."""

import sys

sys.path.insert(0, "/usr/lib/ditseed")

from loader.cli import main

main()
