"""Operations: the work of the verbs, as lists of named steps. Command-line options and reports are in loader/cli."""
