"""From what a decision or a capability attaches to a permission, to the restriction that a broker enforces.

A broker understands these obligations of policies, each an object with one or more of the keys:

    attributes   the names of the only attributes that may be seen or set
    hidden       the names of attributes that may not
    values       names to values: forced on publications, demanded of events delivered
    filter       a filter, in which `$name` stands for the client's attribute of that name
    predicate    the name of a generic predicate; `with` binds its parameters to constants, to `event.<attribute>`, or
                 to `$name`
    record       `before`: nothing is delivered until the audit stream has that it is
    interaction  the text of a rule of interaction control, alone with `rule`, the name by which it is known

What it does not understand it cannot fulfil, so the permission does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import starmap

from msgspec import structs

from authz.errors import InvalidSyntax
from authz.predicate import TRUE, And, Equal, Predicate
from authz.predicate.filter import EVENT, opening, parse_filter
from authz.rules import Point
from authz.spki import Authority, Capability, Grant, Right
from pubsub_core.access.restriction import UNRESTRICTED, Check, Metered, Option, Restriction
from pubsub_core.errors import InvalidEvent, InvalidFilter, InvalidObligation
from pubsub_core.events import Shape
from pubsub_core.rules import About, read_interaction
from pubsub_core.types import Attribute, bind_filter

RULE = "interaction"
_KEYS = frozenset({"attributes", "hidden", "values", "filter", "predicate", "with", "record"})


class Reader:
    """Reads obligations about one type on behalf of one client."""

    def __init__(
        self,
        names: Mapping[str, Attribute],
        parameters: Mapping[str, object],
        right: Right,
        predicates: Iterable[str] = (),
        version: str = "",
        types: tuple[str, ...] = (),
        fixed: Mapping[str, object] | None = None,
        ever_called: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
    ) -> None:
        """`parameters` are the client's attributes; `predicates` the generic ones that there are.

        `version` is that of the type whose attributes are named, `types` the names of those it extends and its own,
        `fixed` the attributes that the request gives a value. `ever_called` finds the UUIDs of what some version has
        called by a name.
        """
        self._names = names
        self._parameters = parameters
        self._right = right
        self._predicates = frozenset(predicates)
        self._ever_called = ever_called
        point = Point.PUBLISH if right is Right.PUBLISH else Point.NOTIFY
        self._about = About(names, version, types, {"user": parameters, "sub": fixed or {}}, point)

    def obligations(self, obligations: Sequence[Mapping[str, object]]) -> Restriction:
        """All of these together. Raises InvalidObligation."""
        restriction = UNRESTRICTED
        rules = [each for each in obligations if RULE in each]
        for each in obligations:
            if RULE not in each:
                restriction &= self._obligation(each)
        if rules and self._right is Right.PUBLISH:
            raise InvalidObligation(RULE, "does not belong to this permission, but to `transform`")
        return restriction & self.rules(rules) if rules else restriction

    def rules(self, obligations: Sequence[Mapping[str, object]]) -> Restriction:
        """The rules among these. Raises InvalidObligation."""
        rules = [each for each in obligations if RULE in each]
        return Restriction(rules=read_interaction(rules, self._about)) if rules else UNRESTRICTED

    def grant(self, capability: Capability, grant: Grant, name: str) -> Restriction:
        """What a grant leaves of a right. Raises InvalidObligation."""
        visible = self._ids(grant.attributes) if grant.attributes is not None else None
        alone = structs.replace(capability, authority=Authority.of(grant))
        forced: dict[str, object] = {}
        terms: list[Predicate] = []
        for term in map(self._bound, map(opening, grant.where)):
            if self._right is Right.PUBLISH and isinstance(term, Equal) and len(term.path.keys) == 1:
                forced[str(term.path.keys[0])] = term.value
            else:
                terms.append(term)
        filter_ = And(tuple(terms)) if terms else TRUE
        metered = Option(filter_, Metered(alone, self._right, name))
        return Restriction(visible, forced, filter_, (), (metered,) if grant.windows or grant.rates else ())

    def _obligation(self, obligation: Mapping[str, object]) -> Restriction:
        unknown = obligation.keys() - _KEYS
        if unknown or not obligation:
            raise InvalidObligation(
                str(min(unknown, default=obligation)), "is not one that brokers understand"
            )
        restriction = Restriction(
            self._visible(obligation),
            {},
            self._filter(obligation),
            self._checks(obligation),
            recorded=self._recorded(obligation),
        )
        return restriction & self._values(obligation.get("values", {}))

    def _recorded(self, obligation: Mapping[str, object]) -> bool:
        if "record" not in obligation:
            return False
        if obligation["record"] != "before" or self._right is Right.PUBLISH:
            raise InvalidObligation("record", "must be `before`, and belongs to what is delivered")
        return True

    def _visible(self, obligation: Mapping[str, object]) -> frozenset[str] | None:
        visible: frozenset[str] | None = None
        if "attributes" in obligation:
            visible = self._ids(_texts("attributes", obligation["attributes"]))
        if "hidden" in obligation:
            names = _texts("hidden", obligation["hidden"])
            hidden = self._ids(names).union(self._ever_called(names))  # no new name brings it to light
            every = frozenset(each.id for each in self._names.values())
            visible = (every if visible is None else visible) - hidden
        return visible

    def _values(self, values: object) -> Restriction:
        if not isinstance(values, Mapping):
            raise InvalidObligation("values", "must be an object of names and values")
        given = {str(name): self._known(value) for name, value in values.items()}
        if self._right is Right.PUBLISH:
            return Restriction(forced=dict(starmap(self._forced, given.items())))
        terms = tuple(
            self._bound(parse_filter(f"{name} = $value"), {"value": value}) for name, value in given.items()
        )
        return Restriction(filter=And(terms)) if terms else UNRESTRICTED

    def _forced(self, name: str, value: object) -> tuple[str, object]:
        """The UUID of an attribute with a value that it can have."""
        attribute = self._attribute(name)
        try:
            Shape({attribute.id: attribute}).check({attribute.id: value})
        except InvalidEvent as error:
            raise InvalidObligation(name, error.problem) from None
        return attribute.id, value

    def _filter(self, obligation: Mapping[str, object]) -> Predicate:
        text = obligation.get("filter", "")
        if not isinstance(text, str):
            raise InvalidObligation("filter", "must be the text of a filter")
        try:
            return self._bound(parse_filter(text))
        except InvalidSyntax as error:
            raise InvalidObligation(text, f"cannot be read: {error}") from None

    def _checks(self, obligation: Mapping[str, object]) -> tuple[Check, ...]:
        if "predicate" not in obligation:
            return ()
        name, given = obligation["predicate"], obligation.get("with", {})
        if name not in self._predicates or not isinstance(given, Mapping):
            raise InvalidObligation(str(name), "names no generic predicate that this broker has")
        constants, attributes = dict[str, object](), dict[str, str]()
        for parameter, value in given.items():
            if isinstance(value, str) and value.startswith(f"{EVENT}."):
                attributes[str(parameter)] = self._attribute(value.removeprefix(f"{EVENT}.")).id
            else:
                constants[str(parameter)] = self._known(value)
        return (Check(str(name), constants, attributes),)

    def _known(self, value: object) -> object:
        """A constant, or the value of the parameter that it names."""
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value[1:] not in self._parameters:
            raise InvalidObligation(value, "is not known of this client")
        return self._parameters[value[1:]]

    def _bound(self, predicate: Predicate, parameters: Mapping[str, object] | None = None) -> Predicate:
        try:
            return bind_filter(predicate, self._names, parameters=parameters or self._parameters)
        except InvalidFilter as error:
            raise InvalidObligation(error.text, error.problem) from None

    def _ids(self, names: Iterable[str]) -> frozenset[str]:
        """Names that this type does not have are of no concern: a policy may be about several types."""
        return frozenset(self._names[name].id for name in names if name in self._names)

    def _attribute(self, name: str) -> Attribute:
        if name not in self._names:
            raise InvalidObligation(name, "is not an attribute of this type")
        return self._names[name]


def _texts(field: str, value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise InvalidObligation(field, "must be a list of names")
    return [str(each) for each in value]
