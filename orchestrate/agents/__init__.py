"""Agents: real programs, declared commands, and stand-ins without a bill."""
