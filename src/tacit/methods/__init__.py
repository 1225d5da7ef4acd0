"""One folder a method, the same three files in each: wire, holder, coordinator."""
