"""Survival: the chance that a draft's next token is right, learned from every token that comes.

A draft survives to a depth when none of its tokens before fails, so its survival is a product of one-token chances.
Each chance is the logistic function of a sum of weights, one from the table of each feature. After every step the
weights move towards what came, each by its own uncertainty: the update of a diagonal extended Kalman filter, so that
a few dozen tokens of a new kind of text are enough.
"""

import math
from typing import NamedTuple

import numpy as np

from lookahead import features as by
from lookahead.kernels import part

_PRECISION, _TOKEN_PRECISION, _MOST_PRECISION = 10.0, 2.0, 200.0
_STEEPEST = 30.0
_TRUST_IN_PRIORS = 0.7


class Survival(NamedTuple):
    """What is known: `weights` float64 [WEIGHTS], and their `precision`, the inverse of their variance."""

    weights: np.ndarray
    precision: np.ndarray


def new_survival() -> Survival:
    """Return the weights before anything was seen."""
    precision = np.full(by.WEIGHTS, _PRECISION)
    precision[by.BY_TOKEN :] = _TOKEN_PRECISION
    return Survival(_TRUST_IN_PRIORS * prior_weights(), precision)


def prior_weights() -> np.ndarray:
    """Return what holds for most texts, in log-odds: shaped by hand, round numbers, tokens and kinds left at 0."""
    weights = np.zeros(by.WEIGHTS)
    match = [-2.5, -1.1, -0.7, -0.4, 0.1, 0.3, 0.6, 0.9, 1.2, 1.6, 1.9, 2.1, 2.4, 3.1]
    beyond = np.array([0.0, 0.2, 0.4, 0.8])
    weights[by.BY_MATCH : by.BY_OWN] = np.add.outer(beyond, match).ravel()
    _set_counts(weights, by.BY_OWN, 0.3, [-1.2, -1.1, -0.6, -0.4, -0.2, 0.2, 0.5])
    _set_counts(weights, by.BY_PAIR, 0.0, [-0.8, -0.5, -0.3, -0.1, 0.5, 1.2, 2.0])
    _set_counts(weights, by.BY_ONE, -1.2, [-2.2, -0.3, 0.0, 0.4, 1.0, 1.4, 2.4])
    distance = [-0.8, -0.3, 0.0, 0.4, 0.0, 0.2, -0.2, -0.4, -0.4, 0.5]
    weights[by.BY_DISTANCE : by.BY_RATE] = np.repeat(distance, by.SHORTS)
    weights[by.BY_RATE : by.BY_KIND] = [-0.4, -0.15, 0.1, 0.3, 0.4, 0.5]
    return weights


def _set_counts(weights: np.ndarray, start: int, unknown: float, by_share: list[float]) -> None:
    """Fill a table of counts: the more often it was seen, the more a share says."""
    table = weights[start : start + by.COUNTS * by.SHARES].reshape(by.COUNTS, by.SHARES)
    certainty = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    table[:, 1:] = np.outer(certainty, by_share)
    table[0, 0] = unknown


@part
def chance(weights, codes):
    """The chance that the token with these features is right."""
    total = 0.0
    for i in range(by.FEATURES):
        total += weights[codes[i]]
    return 1.0 / (1.0 + math.exp(-min(max(total, -_STEEPEST), _STEEPEST)))


@part
def learn_token(survival, codes, right):
    """Move the weights of a token towards 1 (it came) or 0 (another did)."""
    weights, precision = survival.weights, survival.precision
    expected = chance(weights, codes)
    information = expected * (1.0 - expected)
    variance = 0.0
    for i in range(by.FEATURES):
        variance += 1.0 / precision[codes[i]]
    error = (right - expected) / (1.0 + information * variance)
    for i in range(by.FEATURES):
        code = codes[i]
        weights[code] += error / precision[code]
        precision[code] = min(precision[code] + information, _MOST_PRECISION)
