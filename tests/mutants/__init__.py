"""Mutation testing of the code that promises rest on: are the tests able to fail?

`python -m tests.mutants` changes one thing at a time in the durable writes, locks, keeper, masking
and paths, and runs their tests. `making` makes the mutants, `trying` tries one in isolation.
"""
