"""Values and laws: what a step costs, what may be claimed, what may leave. Depends on numpy alone."""
