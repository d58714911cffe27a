"""Proof by breaking: real processes are killed, stopped and cut off under load, and checkers look for a broken promise.

`python -m benchmarks.reliability` runs the quick form with its negative controls, `--long` the form that counts.
"""
