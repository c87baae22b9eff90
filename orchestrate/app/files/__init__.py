"""The files that runs work on: compared, put back, or in a work tree of their own."""
