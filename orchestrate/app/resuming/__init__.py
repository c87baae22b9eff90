"""Going on with a run, also when its definition was edited."""
