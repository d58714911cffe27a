"""The read models: one module each with its SQL beside it, folded by the same Python inline, in rebuild and in verify."""
