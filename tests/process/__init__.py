"""The keeper and its client, in real processes."""
