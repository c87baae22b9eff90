"""Runs on other machines."""
