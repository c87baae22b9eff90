"""From a recipe to a run that works, or to one that is only gone through."""
