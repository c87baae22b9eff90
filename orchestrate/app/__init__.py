"""What can be done with runs, for any front: the only layer that knows both halves."""
