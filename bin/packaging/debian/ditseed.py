#!/usr/bin/python3 -I
"""Entry point of the Debian package: prefers the Python packages in it to the distribution's."""

import sys

sys.path.insert(0, "/usr/lib/ditseed")

from loader.cli import main

main()
