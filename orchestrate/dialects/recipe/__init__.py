"""Dialect B: recipes, flat or staged."""
