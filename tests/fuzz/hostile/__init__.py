"""Files that earlier runs and other hands left behind, mutated and read again in this process.

Each is refused with a code, or says what it said before. `bin/fuzz-files` runs it; docs/fuzzing.md tells more.
"""
