"""Real servers and tools for the tests, each fetched from a package and started on loopback; `python -m tests.servers.<name>` runs one by hand."""
