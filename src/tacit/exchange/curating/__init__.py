"""A curator who is trusted with exact tables: holders seal them for it, and only its noisy release is seen."""
