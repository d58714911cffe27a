"""Facts and decisions: events, decide/evolve, metadata, errors. Pure: no I/O, clock, ids, async or logging."""
