"""Recipes before they run: found, checked, watched, and whom they would ask."""
