"""Tests that carry the numbers of the specifications and rulings."""
