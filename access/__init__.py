"""What commands and queries have in common: who asks, whether they may, which warehouse they mean, and what holds its data."""
