"""The read side's door: one module per question; it asks a read model and adds what only now can know."""
