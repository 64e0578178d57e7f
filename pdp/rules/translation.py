"""Conditions of rules as conditions about requests: `user.x` is `subject.x`, `sub.x` is `context.sub.x`."""

from __future__ import annotations

from authz.change import ROLES
from authz.errors import InvalidSyntax
from authz.predicate import (
    AnyComparison,
    Equal,
    Names,
    Overlaps,
    Path,
    Predicate,
    Relate,
    map_comparisons,
    map_paths,
)
from authz.rules import Call, parse_term
from authz.rules.syntax import Place
from authz.rules.terms import write_argument
from pdp.oasis import Instance, InvalidTerm, RoleHierarchy

USAGE = "`credentials` needs the user and a role: `credentials(user, auditor)`, or `credentials(user, nurse('ward7'))`"


def translate(judged: Predicate, seniors: RoleHierarchy, place: Place) -> Predicate:
    """What a decision point judges, about requests. Raises InvalidSyntax at the place of the rule."""
    return map_comparisons(judged, lambda test: _translate(test, seniors, place))


def _translate(test: AnyComparison, seniors: RoleHierarchy, place: Place) -> Predicate:
    if test.path.root and not (isinstance(test, Relate) and not test.other.root):
        return map_paths(test, _about_request)
    if not isinstance(test, Equal) or test.value is not True:
        raise InvalidSyntax(f"{USAGE}, and is compared with nothing", *place)
    role = role_of(parse_term(str(test.path.keys[0])).base, place)
    try:
        if isinstance(role, str):
            return Names(ROLES, seniors.named(role))
        return Overlaps(ROLES, tuple(map(str, seniors.of(role))))
    except InvalidTerm as error:
        raise InvalidSyntax(str(error), *place) from None


def role_of(call: Call, place: Place) -> str | Instance:
    """The role that `credentials` speaks of: by name, whatever its parameters, or with them. Raises InvalidSyntax."""
    try:
        match call.arguments:
            case (Path(root="user", keys=()), Path(root="event", keys=keys)):
                return ".".join(map(str, keys))
            case (Path(root="user", keys=()), str(text)):
                return Instance.parse(text) if "(" in text else text
            case (Path(root="user", keys=()), Call(name=name, arguments=arguments)):
                return Instance(name, tuple(_parameter(each) for each in arguments))
    except InvalidTerm:
        pass
    raise InvalidSyntax(USAGE, *place)


def _parameter(argument: object) -> str | int:
    if isinstance(argument, Path) and argument.root == "event":
        return write_argument(argument)
    if isinstance(argument, str | int) and not isinstance(argument, bool):
        return argument
    raise InvalidTerm(f"`{argument}`")


def _about_request(path: Path) -> Path:
    match path.root:
        case "user":
            return Path("subject", path.keys)
        case "sub":
            return Path("context", ("sub", *path.keys))
    return path
