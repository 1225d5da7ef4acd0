"""Conversions of older publications, which ours must never be worse than, and the best one by plain minimization."""

import math
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize_scalar

from tacit.accounting.rdp import ORDERS, conversion


def classic_zcdp_epsilon(rho, delta):
    """ρ + 2√(ρ log(1/δ))."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def classic_rdp_epsilon(divergence, delta, orders=ORDERS):
    """The smallest ε over the orders by R + log(1/δ)/(α−1)."""
    return float(np.min(divergence - math.log(delta) / (orders - 1)))


def zcdp_epsilon(rho, delta):
    """The smallest ε that ρ-zCDP proves at δ, over all orders α, on the scale of log(α − 1)."""

    def converted(exponent):
        order = 1 + math.exp(exponent)
        return order * rho + conversion(order, delta)

    ends = (-20.0, math.log(1 / delta - 1))
    # The scale is cut into pieces, in one of which the minimum is the only one.
    pieces = pairwise(np.linspace(*ends, 40))
    found = (minimize_scalar(converted, bounds=piece, method="bounded", options={"xatol": 1e-9}) for piece in pieces)
    return max(0.0, min(each.fun for each in found))


def pure_rho(epsilon):
    """The ρ of every ε-DP mechanism."""
    return epsilon**2 / 2
