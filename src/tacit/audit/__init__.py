"""Tests a claimed ε against samples: what an attacker who knows everything but one record could tell at most."""
