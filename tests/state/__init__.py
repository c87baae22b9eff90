"""Durable files, the journal, run directories and locks, in real processes on real files."""
