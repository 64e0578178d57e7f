"""From a label policy file to a label policy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from authz.errors import InvalidSyntax
from pdp.documents import Document, Place
from pdp.labels.labels import Access, InvalidLabel, Label, Labelling, LabelPolicy, Lattice

_ACTIONS = {access.value: (access.value,) for access in Access}


def read_label_policy(text: str, source: str = "") -> LabelPolicy:
    """The label policy that YAML text stands for. Raises InvalidSyntax, with `source` as the file's name."""
    document = Document.parse(text, source)
    if len(document.values) != 1:
        raise InvalidSyntax("a label policy is one document, with levels and labels", 1, 1, source)
    return _Reader(document).policy()


class _Reader:
    """Reads the parts of a document, and says where what is wrong."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lattice = Lattice(())

    def policy(self) -> LabelPolicy:
        root: Place = (0,)
        known = ("levels", "categories", "dominance", "actions", "subjects", "objects")
        top = self._mapping(self._document.values[0], root, known)
        for name in ("levels", "dominance", "subjects", "objects"):
            if name not in top:
                raise self._document.error(root, f"`{name}` is missing: {_MEANINGS[name]}")
        levels = self._names(top["levels"], (*root, "levels"))
        if not levels:
            raise self._document.error((*root, "levels"), f"no level is given: {_MEANINGS['levels']}")
        self._lattice = Lattice(levels, self._names(top.get("categories", []), (*root, "categories")))
        if top["dominance"] not in ("permits", "restricts"):
            raise self._document.error((*root, "dominance"), _MEANINGS["dominance"])
        return LabelPolicy(
            self._lattice,
            self._labelling("subject", top["subjects"], (*root, "subjects")),
            self._labelling("object", top["objects"], (*root, "objects")),
            self._actions(top.get("actions", _ACTIONS), (*root, "actions")),
            top["dominance"] == "permits",
        )

    def _mapping(self, value: object, place: Place, known: Iterable[str] = ()) -> Mapping[str, object]:
        """An object with none but the known names, if any are given."""
        if not isinstance(value, dict):
            raise self._document.error(place, "an object with names and values is expected here")
        names = list(known)
        for name in value:
            if names and name not in names:
                near = difflib.get_close_matches(name, names, 1) or names
                meant = ", ".join(f"`{each}`" for each in near)
                raise self._document.error((*place, name), f"`{name}` is unknown here: expected {meant}")
        return value

    def _names(self, value: object, place: Place) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self._document.error(place, "a list of names is expected here")
        for index, name in enumerate(value):
            if name in value[:index] or not name.strip() or set("{},") & set(name):
                problem = "names must differ, not be empty, and be without braces and commas"
                raise self._document.error((*place, index), f"`{name}` cannot stand here: {problem}")
        return tuple(value)

    def _labelling(self, root: str, value: object, place: Place) -> Labelling:
        parts = self._mapping(value, place, ("attribute", "table"))
        attribute = parts.get("attribute")
        if attribute is not None and not (isinstance(attribute, str) and attribute):
            raise self._document.error((*place, "attribute"), "the name of an attribute is expected here")
        table = self._mapping(parts.get("table", {}), (*place, "table"))
        labels = {key: self._label(label, (*place, "table", key)) for key, label in table.items()}
        if attribute is None and not labels:
            raise self._document.error(
                place, f"no {root} gets a label: give an `attribute`, a `table`, or both"
            )
        return Labelling(root, self._lattice, labels, attribute)

    def _label(self, value: object, place: Place) -> Label:
        try:
            return self._lattice.read(value)
        except InvalidLabel as error:
            raise self._document.error(place, str(error)) from None

    def _actions(self, value: object, place: Place) -> dict[str, Access]:
        actions: dict[str, Access] = {}
        for name, listed in self._mapping(value, place, _ACTIONS).items():
            for index, action in enumerate(self._names(listed, (*place, name))):
                if action in actions:
                    problem = f"`{action}` is listed already, as {actions[action].value}: an action does one of these"
                    raise self._document.error((*place, name, index), problem)
                actions[action] = Access(name)
        return actions


_MEANINGS = {
    "levels": "list the levels, lowest first",
    "dominance": "write `permits` if dominance allows by itself, `restricts` if others must allow besides",
    "subjects": "say where clearances come from",
    "objects": "say where classifications come from",
}
