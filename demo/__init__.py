"""The demo: PyIceberg and Spark at work on a catalog of its own, its events as they arrive, then its log. `make demo`."""
