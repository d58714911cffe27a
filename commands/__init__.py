"""The write side: one module for each command, and their execution."""
