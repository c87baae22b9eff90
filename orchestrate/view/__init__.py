"""What a reader may know of a run, from its state and its typed events."""
