"""How any command is executed: resolved, decided in its stream's queue, appended in batches, answered once."""
