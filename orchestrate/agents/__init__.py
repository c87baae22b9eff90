"""Whoever answers a prompt: real agent programs, declared commands, and agents without a bill."""
