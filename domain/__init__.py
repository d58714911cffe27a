"""Events, decisions and table metadata. Pure: no I/O, clock, random ids, async or logging."""
