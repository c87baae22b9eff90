"""Checkpoints of a workspace, and the way back to them."""
