"""Where programs run: the seam between what is to be run and who runs it."""
