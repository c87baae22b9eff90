"""Dialect A at work: whole machines in real processes, with fake agents that keep sessions."""
