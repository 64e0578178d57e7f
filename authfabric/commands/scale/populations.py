"""Whom jobs are about: subjects and objects in files and tables, or those that the policies bring along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from authz import AuthFabricError, Entity
from pdp.bundle import PolicySet

if TYPE_CHECKING:
    from spark_eval.entities import Entities, Inputs
    from spark_eval.runtime import Sessions

Subjects = Annotated[
    str | None,
    typer.Option(
        help="Subjects: a Parquet, CSV or JSON file, a folder of them, or a table. Default: those of the policies."
    ),
]
Objects = Annotated[str | None, typer.Option(help="Objects, likewise.")]
Actions = Annotated[
    str | None, typer.Option(help="Actions, separated by commas. Default: those of the policies.")
]
MayLack = Annotated[
    list[str] | None,
    typer.Option(
        help="An attribute, such as subject.dept, that may be missing, or of another type. Repeat it for several."
    ),
]
Master = Annotated[
    str, typer.Option("--master", help="Where Spark runs: a master URL, or sc:// for Connect.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show what Spark says.")]

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


def make_inputs(
    policies: PolicySet,
    subjects: str | None,
    objects: str | None,
    actions: str | None,
    may_lack: list[str] | None,
    session: Sessions,
) -> Inputs:
    """What a job reads. Raises NobodyKnown."""
    from spark_eval.entities import BundledEntities, Inputs

    def entities(kind: str, source: str | None, known: list[Entity]) -> Entities:
        given = stored(source, session)
        if given is None and not known:
            raise NobodyKnown(kind)
        return given or BundledEntities(f"{kind} of the policies", known)

    found = policies.entities
    acting = tuple(found.actions.values())
    if actions is not None:
        names = dict.fromkeys(name.strip() for name in actions.split(",") if name.strip())
        acting = tuple(found.actions.get(name, Entity(name)) for name in names)
    if not acting:
        raise NobodyKnown("actions")
    return Inputs(
        policies,
        entities("subjects", subjects, list(found.subjects.values())),
        entities("objects", objects, list(found.objects.values())),
        acting,
        tuple(may_lack or ()),
    )
