"""Fault injection: real processes are killed, stopped and disconnected under load, and checkers look for broken promises.

`python -m benchmarks.reliability` runs the quick form with its negative controls, `--long` the long form.
"""
