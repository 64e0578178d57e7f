"""Whether the rules of an application fit its types: what they make of an event must be one of the type it becomes."""

from __future__ import annotations

from pathlib import Path

from authfabric.applications.definitions import define
from authfabric.applications.document import Application, InvalidApplication
from authfabric.interaction import Surroundings, check_use
from authz import Identity
from authz.errors import InvalidSyntax
from pdp.documents import Kind
from pdp.rules import Interaction, read_rule_file
from pubsub_core.types import Catalogue, SignedType


def check_rules(application: Application, path: Path) -> None:
    """Raises InvalidApplication for the first rule that does not fit. Types of other applications are left alone."""
    try:
        files = [read_rule_file(text, f"{name}.rules") for name, text in application.rules.items()]
        interaction = Interaction.of(files)
    except InvalidSyntax as error:
        raise InvalidApplication(str(path), "rules", str(error)) from None
    for each in check_use(interaction, Surroundings(types=_catalogue(application))):
        if each.kind is Kind.MISFIT:
            raise InvalidApplication(str(path), f"rules, `{each.policy}`", each.text)


def _catalogue(application: Application) -> Catalogue:
    """The types as they would be, signed by nobody in particular."""
    nobody, catalogue = Identity.generate(), Catalogue()
    for spec in application.types.values():
        catalogue.accept(SignedType.sign(define(spec, nobody.public), nobody), 0.0)
    return catalogue
