"""Renderers: a view or an event in, text out."""
