"""How asks and answers travel between a coordinator and its holders."""
