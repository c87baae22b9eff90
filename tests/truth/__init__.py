"""Trials from outside: each number of the issue "Nothing but the truth" has its tests here."""
