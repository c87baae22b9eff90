"""The seam between the engine and what runs its programs."""
