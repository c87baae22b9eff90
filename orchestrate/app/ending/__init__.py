"""Ending runs from outside, and removing them."""
