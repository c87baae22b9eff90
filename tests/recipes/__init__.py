"""Dialect B from outside: recipes that ask a fake agent program, and what they leave behind."""
