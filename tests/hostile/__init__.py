"""Hostile input: whatever the files hold, the command answers in time and leaves no trace."""
