"""Dialect C: workflows of commands and providers."""
