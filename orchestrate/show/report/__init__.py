"""A run as one page to read, keep or send."""
