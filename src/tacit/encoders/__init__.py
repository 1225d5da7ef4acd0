"""From raw samples to rows of numbers."""
