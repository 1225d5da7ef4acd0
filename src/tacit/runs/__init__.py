"""From a recipe to a recorded run."""
