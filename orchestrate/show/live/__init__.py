"""The live view of a run on a terminal: a picture of its state, drawn again as it changes."""
