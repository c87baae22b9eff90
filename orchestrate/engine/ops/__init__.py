"""One module per op of the plan: what it does in the world."""
