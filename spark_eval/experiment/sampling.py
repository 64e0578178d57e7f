"""Samples drawn at random: when which PDP fails, what each serves, and who asks for what.

After Wei, "Authorization Using the Publish-Subscribe Model", section 4.1. A PDP alternates between working and
failing; both times are exponential and counted in requests. Invariants: every run starts in the stationary state
(so a PDP is down with probability u at every request, not only in the long run), times are not rounded (which
would lengthen failures), and a sample depends on seed, cell and block only, never on what else is drawn where.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_eval.experiment.cell import Cell, Population, Spaces

Flags: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Sample:
    """Several runs of one cell. Every array begins with the run."""

    up: Flags
    """By PDP and request: whether the PDP works. The first PDP is the PEP's own."""
    serves: Flags
    """By PDP and object."""
    subjects: Numbers
    """By request: who asks."""
    objects: Numbers
    """By request: about what."""
    luck: NDArray[np.float64]
    """By request: the chance that decides which replica of a queue group gets it."""


def draw_sample(cell: Cell, population: Population, seed: int, block: int, runs: int) -> Sample:
    """The samples of one block of runs."""
    rng = generator(seed, cell.sample, block)
    requests = population.requests
    return Sample(
        up=_draw_up(rng, cell, (runs, cell.pdps, requests)),
        serves=_draw_spaces(rng, cell, (runs, cell.pdps, population.objects)),
        subjects=rng.integers(population.subjects, size=(runs, requests), dtype=np.int32),
        objects=rng.integers(population.objects, size=(runs, requests), dtype=np.int32),
        luck=rng.random((runs, requests)),
    )


def draw_grants(population: Population, seed: int) -> Flags:
    """By role and object: whether the role may read the object."""
    return generator(seed, "grants", 0).random((population.roles, population.objects)) < 0.5


def generator(seed: int, name: str, block: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these three."""
    digest = hashlib.sha256(f"{seed}|{name}|{block}".encode()).digest()
    return np.random.Generator(np.random.PCG64DXSM(int.from_bytes(digest)))


def _draw_up(rng: np.random.Generator, cell: Cell, shape: tuple[int, int, int]) -> Flags:
    runs, pdps, requests = shape
    own = _alternate(rng, cell.own_unavailability, cell.mttr, runs * pdps, requests)
    shared = _alternate(rng, cell.common_unavailability, cell.mttr, runs, requests)
    up: Flags = own.reshape(shape) & shared.reshape(runs, 1, requests)
    return up


def _alternate(
    rng: np.random.Generator, unavailability: float, mttr: float, rows: int, requests: int
) -> Flags:
    """For each row whether it works at each request: a stationary process with a given share of failures."""
    if unavailability == 0:
        return np.ones((rows, requests), np.bool_)
    mttf = mttr * (1 - unavailability) / unavailability
    working = rng.random(rows) >= unavailability
    switches = np.zeros((rows, requests), np.bool_)
    switches[:, 0] = working
    row, now, state = np.arange(rows), np.zeros(rows), working
    while row.size:  # by phases: all rows that have not reached the end take their next one together
        # What remains of an exponential time is distributed like the whole.
        now = now + rng.standard_exponential(row.size) * np.where(state, mttf, mttr)
        inside = now <= requests - 1
        row, now, state = row[inside], now[inside], ~state[inside]
        switches[row, np.ceil(now).astype(np.int64)] ^= True  # the first request after the switch sees it
    return np.logical_xor.accumulate(switches, axis=1)


def _draw_spaces(rng: np.random.Generator, cell: Cell, shape: tuple[int, int, int]) -> Flags:
    """The first PDP serves every object; each other one a random part of them, of exactly the overlap's size."""
    size = round(cell.overlap * shape[2])
    drawn = shape if cell.spaces is Spaces.INDEPENDENT else (shape[0], 1, shape[2])  # a core is drawn once
    order = np.broadcast_to(rng.random(drawn).argsort(axis=2).argsort(axis=2), shape)
    serves: Flags = order < size
    serves[:, 0] = True
    return serves
