"""Publishes the log as CloudEvents, to sinks and to HTTP clients."""
