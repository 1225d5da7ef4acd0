"""One folder per method, with the same files: options, plan, wire, holder, coordinator, method."""
