"""Reading the log: its head, positions at a time, what changed, batches that follow it, and waiting for more."""
