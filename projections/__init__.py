"""The read models: one module each, with its SQL. The same Python folds them in commits, rebuild and verify."""
