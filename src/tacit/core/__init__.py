"""Basic values and interfaces: spends, guarantees, sensitivities, releases, randomness. Depends on numpy alone."""
