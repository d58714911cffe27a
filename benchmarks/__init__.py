"""Speed, measured: one module per claim, each beside an honest reference in the same run (README.md)."""
