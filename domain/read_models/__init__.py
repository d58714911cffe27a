"""The rows of the read models, folded from events and states. Pure, so that they can be computed from the log anywhere."""
