"""History: the log over HTTP, and waiting for positions and snapshots."""
