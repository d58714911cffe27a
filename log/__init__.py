"""Reads the log: its head, positions of times, changes since a position, batches of events, and waiting for new ones."""
