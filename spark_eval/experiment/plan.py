"""An experiment as one YAML file: read, checked, and written down again so that it can be repeated."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

from pep.asking import Strategy
from spark_eval.errors import EvaluationError
from spark_eval.experiment.cell import Cache, Cell, Count, Counted, Population, Share, Spaces, Span
from spark_eval.experiment.chain import Chain
from spark_eval.experiment.recovery import Recovery
from spark_eval.experiment.remote import Hosts

_WHERE = re.compile(r" - at `\$\.?(.*)`$")


class Part(enum.StrEnum):
    """What can be run by itself."""

    AVAILABILITY = "availability"
    RESPONSE_TIME = "response-time"
    RECOVERY = "recovery"


class InvalidExperiment(EvaluationError):
    """A plan that cannot be carried out: `field` says where, `problem` what would be right."""

    def __init__(self, file: str, field: str, problem: str) -> None:
        super().__init__(f"{file}: `{field}` {problem}" if field else f"{file}: {problem}")
        self.file = file
        self.field = field
        self.problem = problem


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Cells that make one figure: every combination of the values listed."""

    live: bool | Count = False
    """Whether to run the cells on NATS and PDP processes too, not only simulate them; or how often."""
    pdps: tuple[Annotated[int, msgspec.Meta(ge=1, le=1024)], ...] = (4,)
    overlap: tuple[Share, ...] = (0.1,)
    mttf: tuple[Span, ...] = (100.0,)
    mttr: tuple[Span, ...] = (10.0,)
    common: tuple[Share, ...] = (0.0,)
    strategy: tuple[Strategy, ...] = (Strategy.FLOOD,)
    cache: tuple[Cache, ...] = (Cache.NONE,)
    counted: tuple[Counted, ...] = (Counted.FROM_REPAIR,)
    spaces: tuple[Spaces, ...] = (Spaces.INDEPENDENT,)

    def cells(self) -> list[Cell]:
        values = (getattr(self, name) for name in Cell.__struct_fields__)
        return list(dict.fromkeys(itertools.starmap(Cell, itertools.product(*values))))


class Availability(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Failed requests under failing PDPs, against point to point."""

    population: Population = Population()
    simulated_runs: Annotated[int, msgspec.Meta(ge=2)] = 1000
    block: Count = 50
    """Runs drawn together: the unit of work on the cluster."""
    live_runs: Annotated[int, msgspec.Meta(ge=0)] = 1
    pace: Span = 60.0
    """Milliseconds from one request to the next, as the paper has it …"""
    faster: Span = 15.0
    """… and how many times faster live runs are. Failures are counted in requests, so this shifts nothing."""
    sweeps: dict[str, Sweep]
    """By the figure they make."""

    def cells(self) -> list[Cell]:
        """Every cell once, in the order of the figures."""
        return _once(self.sweeps.values())

    def live_cells(self, run: int = 0) -> list[Cell]:
        """The cells of the live run with this number."""
        return _once(sweep for sweep in self.sweeps.values() if self._runs(sweep) > run)

    @property
    def rounds(self) -> int:
        """How many live runs there are of what is run most often."""
        return max(map(self._runs, self.sweeps.values()), default=0)

    @property
    def live_requests(self) -> int:
        """How many requests live runs ask, both ways together."""
        cells = sum(len(self.live_cells(run)) for run in range(self.rounds))
        return 2 * cells * self.population.requests

    @property
    def interval(self) -> float:
        """Seconds from one request of a live run to the next."""
        return self.pace / self.faster / 1000

    def _runs(self, sweep: Sweep) -> int:
        """How often a sweep is run live: as often as it says itself, or as all are."""
        if self.live_runs == 0:
            return 0
        return self.live_runs if sweep.live is True else min(int(sweep.live), self.simulated_runs)


class ResponseTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long an answer takes when nothing fails: one figure for each factor."""

    requests: Annotated[int, msgspec.Meta(ge=100)] = 10_000
    windows: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    """Points on each curve: groups of consecutive requests."""
    subscriptions: Annotated[tuple[Count, ...], msgspec.Meta(min_length=2)] = (100, 1_000)
    """Objects that the PDP subscribes to, ascending: the paper has the first two."""
    pdps: tuple[Annotated[int, msgspec.Meta(ge=1, le=64)], ...] = (1, 2, 4, 8)
    recycling: Population = Population(requests=10_000, objects=300, subjects=100, roles=10)
    """Who asks about what with and without a secondary decision point: a third of all possible requests."""
    hospital: Annotated[int, msgspec.Meta(ge=10, le=2_000)] = 240
    """How many people there are where it is counted how much caches answer, by what they have learned."""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that decides what is run. The same plan gives the same samples."""

    seed: int
    availability: Availability
    response_time: ResponseTime = ResponseTime()
    recovery: Recovery = Recovery()
    chain: Chain = Chain()
    hosts: Hosts | None = None
    """Other machines for PDPs: without them all run here, and another host is a network namespace."""


def shipped(name: str) -> Path:
    """The plan of this name that comes with the package: `full` or `quick`."""
    return Path(__file__).with_name(f"{name}.yaml")


def load(path: Path) -> Experiment:
    """Read a plan. Raises InvalidExperiment before anything is run."""
    try:
        return parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidExperiment(str(path), "", f"cannot be read: {reason}") from None


def parse(text: str, name: str = "experiment") -> Experiment:
    """The plan in a YAML text; `name` stands in its errors."""
    try:
        plan = msgspec.convert(yaml.safe_load(text), Experiment)
    except yaml.YAMLError as error:
        raise InvalidExperiment(name, "", f"is not YAML: {_where(error)}") from None
    except msgspec.ValidationError as error:
        where = _WHERE.search(str(error))
        problem = _WHERE.sub("", str(error))
        raise InvalidExperiment(name, where[1] if where else "", problem[:1].lower() + problem[1:]) from None
    _check(plan, name)
    return plan


def dump(plan: Experiment) -> str:
    """The plan as YAML, with every value spelled out."""
    text: str = yaml.safe_dump(
        msgspec.to_builtins(plan), sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )
    return text


def _check(plan: Experiment, name: str) -> None:
    """What the types alone cannot say."""
    population = plan.availability.population
    for figure, sweep in plan.availability.sweeps.items():
        field = f"availability.sweeps.{figure}"
        if not sweep.cells():
            raise InvalidExperiment(name, field, "has an empty list, and so nothing to run")
        for overlap in sweep.overlap:
            shared = overlap * population.objects
            if abs(shared - round(shared)) > 1e-9:
                problem = (
                    f"asks for {shared:g} of {population.objects} objects: choose a whole number of them"
                )
                raise InvalidExperiment(name, f"{field}.overlap", problem)
        if Counted.FROM_FAILURE in sweep.counted and min(sweep.mttf) <= max(sweep.mttr):
            raise InvalidExperiment(
                name, f"{field}.mttf", "must be more than `mttr` where it is counted from-failure"
            )
        if sweep.live and set(sweep.cache) != {Cache.NONE}:
            raise InvalidExperiment(name, f"{field}.live", "is for cells without cache only")
    if plan.response_time.requests % plan.response_time.windows:
        raise InvalidExperiment(name, "response_time.windows", "must divide `requests`")
    if plan.response_time.recycling.requests % plan.response_time.windows:
        raise InvalidExperiment(name, "response_time.windows", "must divide `recycling.requests`")


def _once(sweeps: Iterable[Sweep]) -> list[Cell]:
    return list(dict.fromkeys(cell for sweep in sweeps for cell in sweep.cells()))


def _where(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())
