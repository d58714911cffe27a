"""Asynchronous read models: projections of the eventsourcing library that follow the log."""
