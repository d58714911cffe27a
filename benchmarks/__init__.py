"""Benchmarks: one module per claim, each with a reference in the same run (README.md)."""
