"""The schemas of orchestrate as Python data, one module per schema."""
