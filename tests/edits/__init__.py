"""Edits of runs: what they keep, what they run, and what they say (issue 17)."""
