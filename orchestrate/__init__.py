"""orchestrate: recipes for coding agents, compiled to a checked plan before anything runs."""

__version__ = "0.1.0"
