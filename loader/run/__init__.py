"""The state of runs: their logs, steps and locks, and the settings of servers that they change."""
