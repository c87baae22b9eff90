"""The plan: frozen, typed data in which every next step is written down."""
