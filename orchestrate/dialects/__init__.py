"""One module per dialect: a checked document becomes a plan."""
