"""What is set outside of recipes: read, checked, and laid over a run's flags."""
