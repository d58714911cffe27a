"""Executes commands: resolves names, decides in the stream's queue, appends in batches, and builds the response."""
