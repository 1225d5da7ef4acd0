"""Conversions of older publications, which ours must never be worse than."""

import math

import numpy as np

from tacit.accounting.rdp import ORDERS


def classic_zcdp_epsilon(rho, delta):
    """ρ + 2√(ρ log(1/δ))."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def classic_rdp_epsilon(divergence, delta, orders=ORDERS):
    """The smallest ε over the orders by R + log(1/δ)/(α−1)."""
    return float(np.min(divergence - math.log(delta) / (orders - 1)))


def pure_rho(epsilon):
    """The ρ of every ε-DP mechanism."""
    return epsilon**2 / 2
