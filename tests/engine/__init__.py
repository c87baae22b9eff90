"""The parts of the engine, each against real files."""
