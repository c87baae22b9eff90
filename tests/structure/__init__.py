"""The shape of the code base: who may import whom, and what no module may contain."""
