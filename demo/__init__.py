"""The demo: PyIceberg and Spark at work on a catalog of its own, then the log of what they did. `python -m demo` or `make demo`."""
