"""What a run is given from outside: its flags, inputs and context."""
