"""Agents without a program and without a bill."""
