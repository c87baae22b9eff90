"""While a run works: the engine, who is told, what is kept beside."""
