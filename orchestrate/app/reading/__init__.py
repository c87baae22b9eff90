"""Runs and the computer as they are, looked at without changing them."""
