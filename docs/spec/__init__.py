"""The digest of the specifications, as data and as pages."""
