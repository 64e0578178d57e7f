"""What becomes of the requests of a sample: failed, recycled, and how many replicas were asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pep.asking import Strategy
from spark_eval.experiment.cell import Cache, Cell, Population
from spark_eval.experiment.sampling import Flags, Sample

Amounts: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """By run and request."""

    answered: Flags
    recycled: Flags
    """Whether the PEP knew the answer already, and asked nobody."""
    asked: Amounts
    """To how many replicas the question was delivered, repetitions included."""


def point_to_point(sample: Sample, population: Population) -> Outcome:
    """Each request goes to the PEP's own PDP, and to no other."""
    answered = sample.up[:, 0]
    return Outcome(answered, np.zeros_like(answered), np.where(answered, 1.0, population.attempts))


def publish_subscribe(sample: Sample, cell: Cell, population: Population) -> Outcome:
    """Each request goes to the PDPs that serve its object, by the cell's strategy."""
    serving = np.take_along_axis(sample.serves, sample.objects[:, None, :], axis=2)
    servers = serving.sum(axis=1, dtype=np.int16)
    unlucky = 1 - (serving & sample.up).sum(axis=1, dtype=np.int16) / servers
    answered, asked = _ask(cell.strategy, servers, unlucky, sample.luck, population.attempts)
    if cell.cache is Cache.NONE:
        return Outcome(answered, np.zeros_like(answered), asked)
    known = _known(sample, cell.cache, population, answered)
    return Outcome(answered | known, known, np.where(known, 0.0, asked))


def _ask(
    strategy: Strategy, servers: NDArray[np.int16], unlucky: Amounts, luck: Amounts, attempts: int
) -> tuple[Flags, Amounts]:
    """Whether some replica answers, and how many were asked: `unlucky` is the share of them that is down."""
    reachable = unlucky < 1
    match strategy:
        case Strategy.FLOOD:
            return reachable, np.where(reachable, 1, attempts) * servers
        case Strategy.HEDGE:
            more = np.where(reachable, 1, attempts - 1) * servers
            return reachable, np.where(luck < unlucky, 1.0 + more, 1.0)
        case Strategy.QUEUE:
            return luck >= unlucky**attempts, _tries(unlucky, luck, attempts)


def _tries(unlucky: Amounts, luck: Amounts, attempts: int) -> Amounts:
    """The attempt that reaches a working replica: the first, unless luck is below the chance that it fails, …"""
    with np.errstate(divide="ignore", invalid="ignore"):
        failures = np.floor(np.log(luck) / np.log(unlucky))
    failures[unlucky == 0] = 0
    failures[unlucky == 1] = np.inf
    tries: Amounts = np.minimum(failures + 1, attempts)
    return tries


def _known(sample: Sample, cache: Cache, population: Population, answered: Flags) -> Flags:
    """Whether the same question was answered earlier in the run."""
    roles = population.roles
    askers, count = (
        (sample.subjects, population.subjects) if cache is Cache.PRECISE else (sample.subjects % roles, roles)
    )
    question = askers * population.objects + sample.objects
    requests = answered.shape[1]
    run, request = np.nonzero(answered)
    first = np.full((answered.shape[0], count * population.objects), requests)
    np.minimum.at(first, (run, question[run, request]), request)
    known: Flags = np.take_along_axis(first, question, axis=1) < np.arange(requests)
    return known
