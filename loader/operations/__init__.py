"""Operations: each a readable list of named steps, made of sources and sinks. Options and reports are cli/'s."""
