"""Real servers and tools for the tests, each from a package, on loopback; `python -m tests.servers.<name>` runs one by hand."""
