"""Options of jobs: where Spark runs, and whom they are about, in files and tables or from the policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from authz import AuthFabricError, Entity
from pdp.bundle import PolicySet

if TYPE_CHECKING:
    from spark_eval.entities import Entities, Inputs
    from spark_eval.runtime import Sessions, SparkOptions

LOCAL = "local[*]"


class NobodyKnown(AuthFabricError):
    """There are no entities of a kind, neither in a file nor among the policies."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"no {kind} are known: give them with `--{kind}`, or as entities among the policies")
        self.kind = kind


def stored(source: str | None, session: Sessions) -> Entities | None:
    """The entities in a file or a table; None if none is named."""
    from spark_eval.entities import StoredEntities

    return None if source is None else StoredEntities(source, session)


@dataclass(frozen=True, slots=True)
class SparkRun:
    """Where a job runs, and how much of it is shown."""

    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: a master URL, or sc:// for Connect.")
    ] = LOCAL
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark says.")] = False

    @property
    def options(self) -> SparkOptions:
        from spark_eval.runtime import SparkOptions

        return SparkOptions(self.master, self.verbose)


@dataclass(frozen=True, slots=True)
class Population:
    """Whom and what a job decides about."""

    subjects: Annotated[
        str | None,
        typer.Option(
            help="Subjects: a Parquet, CSV or JSON file, a folder of them, or a table."
            " Default: those of the policies."
        ),
    ] = None
    objects: Annotated[str | None, typer.Option(help="Objects, likewise.")] = None
    actions: Annotated[
        str | None, typer.Option(help="Actions, separated by commas. Default: those of the policies.")
    ] = None
    may_lack: Annotated[
        list[str] | None,
        typer.Option(
            help="An attribute, such as subject.dept, that may be missing, or of another type."
            " Repeat it for several."
        ),
    ] = None

    def inputs(self, policies: PolicySet, session: Sessions) -> Inputs:
        """What a job reads. Raises NobodyKnown."""
        from spark_eval.entities import BundledEntities, Inputs

        def entities(kind: str, source: str | None, known: list[Entity]) -> Entities:
            given = stored(source, session)
            if given is None and not known:
                raise NobodyKnown(kind)
            return given or BundledEntities(f"{kind} of the policies", known)

        found = policies.entities
        acting = tuple(found.actions.values())
        if self.actions is not None:
            names = dict.fromkeys(name.strip() for name in self.actions.split(",") if name.strip())
            acting = tuple(found.actions.get(name, Entity(name)) for name in names)
        if not acting:
            raise NobodyKnown("actions")
        return Inputs(
            policies,
            entities("subjects", self.subjects, list(found.subjects.values())),
            entities("objects", self.objects, list(found.objects.values())),
            acting,
            tuple(self.may_lack or ()),
        )
