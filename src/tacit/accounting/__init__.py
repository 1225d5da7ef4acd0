"""From spends to (ε, δ): composition, conversion, amplification and calibration."""
