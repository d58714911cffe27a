"""Read models that follow the log and may lag behind it: projections of the eventsourcing library."""
