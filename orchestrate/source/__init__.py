"""Text becomes located data: reading, includes and schema checks."""
