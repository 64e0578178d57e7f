"""What role policy text says: a rule set and its statements, as values that can be written out again."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from authz.predicate import Predicate
from pdp.oasis.pattern import ObjectPattern
from pdp.oasis.terms import Atom

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")


class Place(NamedTuple):
    """Where a statement stands, counted from one."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A role that must be active in the same session: `doctor(d)`."""

    atom: Atom
    member: bool = False
    """Whether it must stay true for as long as the role is held. The same for every condition."""

    def __str__(self) -> str:
        return f"{self.atom}{_star(self.member)}"


@dataclass(frozen=True, slots=True)
class Appointed:
    """An appointment certificate that must be held: `appointment employed(d)`."""

    atom: Atom
    member: bool = False

    def __str__(self) -> str:
        return f"appointment {self.atom}{_star(self.member)}"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the environment must know: `[treats(d, p)]`."""

    atom: Atom
    member: bool = False

    def __str__(self) -> str:
        return f"[{self.atom}]{_star(self.member)}"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A predicate that must hold of the request or its context: `[context.hour < 17]`."""

    predicate: Predicate
    member: bool = False

    def __str__(self) -> str:
        return f"[{self.predicate}]{_star(self.member)}"


Condition: TypeAlias = Prerequisite | Appointed | Fact | Constraint


@dataclass(frozen=True, slots=True)
class Declaration:
    """`role doctor(d)`: the role exists. `open role doctor(d)`: sub-domains may say who is in it."""

    role: Atom
    open: bool = False
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        return f"{'open ' if self.open else ''}role {self.role}"


@dataclass(frozen=True, slots=True)
class Trust:
    """`trust KEY for employed`: certificates of these appointments count if this key signed them."""

    key: str
    appointments: tuple[str, ...]
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        return f"trust {self.key} for {', '.join(self.appointments)}"


@dataclass(frozen=True, slots=True)
class Seniority:
    """`consultant(d) > doctor(d)`: whoever is in the senior role counts as being in the junior one."""

    senior: Atom
    junior: Atom
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        return f"{self.senior} > {self.junior}"


@dataclass(frozen=True, slots=True)
class Activation:
    """`conditions |- role`: a session in which all conditions hold may activate the role."""

    conditions: tuple[Condition, ...]
    role: Atom
    name: str = ""
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        return _rule(self.name, self.conditions, str(self.role))


@dataclass(frozen=True, slots=True)
class Authorisation:
    """`role, [constraint] |- privilege(action, "pattern")`: the role may do this to these objects."""

    role: Atom
    constraints: tuple[Constraint, ...]
    actions: tuple[str, ...]
    """The actions allowed; none stands for every action, written `*`."""
    pattern: ObjectPattern
    name: str = ""
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        actions = "|".join(map(_action, self.actions)) or "*"
        head = f"privilege({actions}, {_quoted(self.pattern.text)})"
        return _rule(self.name, (Prerequisite(self.role), *self.constraints), head)


@dataclass(frozen=True, slots=True)
class Appointing:
    """`role, [constraint] |- appoint employed(d)`: the role may issue, and revoke, such appointments."""

    role: Atom
    constraints: tuple[Constraint, ...]
    appointment: Atom
    name: str = ""
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        return _rule(self.name, (Prerequisite(self.role), *self.constraints), f"appoint {self.appointment}")


@dataclass(frozen=True, slots=True)
class Empowering:
    """`role |- capability(subscribe, "type") where [event.a == x]`: whoever activates it gets this capability."""

    role: Atom
    rights: tuple[str, ...]
    """The rights given; none stands for all there are over the resource, written `*`."""
    resource: str
    attributes: tuple[str, ...] = ()
    """The attributes of events that may be seen or set; none stands for all."""
    where: Predicate | None = None
    """What must hold of each event."""
    name: str = ""
    place: Place = field(default=Place(), compare=False)

    def __str__(self) -> str:
        head = f"capability({'|'.join(map(_action, self.rights)) or '*'}, {_quoted(self.resource)})"
        head += f" attributes {', '.join(map(_action, self.attributes))}" if self.attributes else ""
        head += "" if self.where is None else f" where [{self.where}]"
        return _rule(self.name, (Prerequisite(self.role),), head)


Statement: TypeAlias = Declaration | Trust | Seniority | Activation | Authorisation | Appointing | Empowering


@dataclass(frozen=True, slots=True)
class RuleSet:
    """One domain's role policy: a file's worth of statements."""

    domain: str = ""
    parent: str = ""
    statements: tuple[Statement, ...] = ()
    source: str = field(default="", compare=False)
    """Where it was read from, for messages."""

    def __str__(self) -> str:
        head = f"domain {self.domain}" + (f" under {self.parent}" if self.parent else "")
        return "\n".join([*([head] if self.domain else []), *map(str, self.statements)]) + "\n"


def unparse(rules: RuleSet) -> str:
    """The text in its standard form: parsing it gives an equal rule set."""
    return str(rules)


def _rule(name: str, conditions: tuple[Condition, ...], head: str) -> str:
    body = ", ".join(map(str, conditions))
    return f"{name + ': ' if name else ''}{body + ' ' if body else ''}|- {head}"


def _action(name: str) -> str:
    return name if _NAME.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _star(member: bool) -> str:
    return "*" if member else ""
