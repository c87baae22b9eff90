"""A plan as a drawing: text, Mermaid, Graphviz and SVG."""
