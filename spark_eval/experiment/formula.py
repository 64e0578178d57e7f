"""What the availability experiment must show, computed: the share of requests that fail.

PDPs are independent but for the common cause, and in their stationary state. A request about an object that K
others serve besides the PEP's own PDP fails, when all are asked, if all K + 1 are down. K is binomial: each of
the n - 1 others serves the object with the overlap's probability. For flooding without cache and common cause
this is u (1 - o (1 - u))^(n - 1). Where all others serve the same core of objects, K is n - 1 with the overlap's
probability and otherwise none, so that it is u (1 - o) + o u^n.
"""

from __future__ import annotations

from math import comb, sqrt

import numpy as np

from pep.asking import Strategy
from spark_eval.experiment.cell import Cache, Cell, Population, Spaces


def failing(cell: Cell, population: Population) -> float:
    """The share of requests that publish/subscribe fails to get answered."""
    return sum(
        weight * _with_cache(cell, population, _unanswered(cell, population, serving))
        for serving, weight in _serving(cell)
    )


def decrease(cell: Cell, population: Population) -> float:
    """By which share fewer requests fail than point to point: the paper's measure of availability."""
    return 1 - failing(cell, population) / cell.unavailability


def spread_of_spaces(cell: Cell, population: Population) -> float:
    """By how much the decrease varies from run to run because each draws its object spaces: a standard deviation.

    All requests of a run have them in common, so that nothing within the run shows it. Of two objects each other PDP
    serves both, one or none: it draws exactly as many of them as the overlap says.
    """
    others, objects = cell.pdps - 1, population.objects
    if cell.spaces is Spaces.CORE or others == 0 or objects == 1:
        return 0.0
    shared = round(cell.overlap * objects)
    both = shared * (shared - 1) / (objects * (objects - 1))
    one = shared / objects - both
    serving = np.ones((1, 1))  # by how many serve the first, and the second
    for _ in range(others):
        more = np.zeros((len(serving) + 1, len(serving) + 1))
        for first, second, share in ((0, 0, 1 - both - 2 * one), (0, 1, one), (1, 0, one), (1, 1, both)):
            more[first : first + len(serving), second : second + len(serving)] += share * serving
        serving = more
    unanswered = np.array([_unanswered(cell, population, number) for number in range(others + 1)])
    single = serving.sum(axis=1)
    mean = single @ unanswered
    variance = single @ unanswered**2 - mean**2
    covariance = unanswered @ serving @ unanswered - mean**2
    return sqrt(max(variance / objects + (1 - 1 / objects) * covariance, 0.0)) / cell.unavailability


def _serving(cell: Cell) -> list[tuple[int, float]]:
    """How many of the others serve an object, with the probability of each number."""
    others = cell.pdps - 1
    if cell.spaces is Spaces.CORE:
        return [(0, 1 - cell.overlap), (others, cell.overlap)]
    return _binomial(others, cell.overlap)


def _unanswered(cell: Cell, population: Population, others: int) -> float:
    """The probability that none answers, of the own PDP and `others` others that serve the object."""
    shared, own, servers = cell.common_unavailability, cell.own_unavailability, others + 1
    if cell.strategy is not Strategy.QUEUE:
        return shared + (1 - shared) * own**servers
    # Each attempt goes to one server at random, and none of them recovers meanwhile.
    unlucky = sum(
        weight * (down / servers) ** population.attempts for down, weight in _binomial(servers, own)
    )
    return shared + (1 - shared) * unlucky


def _with_cache(cell: Cell, population: Population, unanswered: float) -> float:
    """The same over a run in which the answer to a question once answered is kept.

    The i-th request finds its question unanswered so far with probability (1 - a)^i, where a is the probability
    that a request is about that question and answered.
    """
    if cell.cache is Cache.NONE or unanswered == 1:
        return unanswered
    askers = population.subjects if cell.cache is Cache.PRECISE else population.roles
    answered = (1 - unanswered) / (askers * population.objects)
    unknown = (1 - (1 - answered) ** population.requests) / (population.requests * answered)
    return unanswered * unknown


def _binomial(count: int, share: float) -> list[tuple[int, float]]:
    return [(k, comb(count, k) * share**k * (1 - share) ** (count - k)) for k in range(count + 1)]
