"""Reads entries (`sources`), writes entries (`sinks`), and connects sources with sinks (`operations`)."""
