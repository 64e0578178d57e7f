"""An event application as people write it: one YAML file, read and checked before anything is made of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from authfabric.applications.document_schema import (
    FIELDS,
    NAME,
    ROUTED,
    ApplicationText,
    Attribute,
    BrokerText,
    ClientText,
    SubscriptionText,
    TypeText,
)
from authfabric.files import FileRefused, read_file
from authz import AuthFabricError
from authz.predicate import paths
from authz.predicate.filter import parse_filter
from pubsub_core.types import ROUTABLE, AttributeType


class InvalidApplication(AuthFabricError):
    """A file that says something that cannot be meant: `place` says where, `problem` what would be right."""

    def __init__(self, source: str, place: str, problem: str) -> None:
        super().__init__(f"`{source}`, {place}: {problem}")
        self.source = source
        self.place = place
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """One attribute: its type and its sensitivity."""

    type: AttributeType
    sensitivity: str = "clear"

    @property
    def sealed(self) -> bool:
        return self.sensitivity != "clear"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A type to be defined."""

    name: str
    owner: str
    attributes: Mapping[str, AttributeSpec]
    keep: str
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def sealed(self) -> tuple[str, ...]:
        """The attributes that are sealed."""
        return tuple(name for name, each in self.attributes.items() if each.sealed)

    @property
    def routed(self) -> str:
        """The attribute by whose value events are routed; nothing if there is none."""
        return next((name for name, each in self.attributes.items() if each.sensitivity == ROUTED), "")

    @property
    def clear(self) -> tuple[str, ...]:
        return tuple(name for name, each in self.attributes.items() if not each.sealed)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client may receive of a type; all attributes if `sees` is None."""

    sees: tuple[str, ...] | None
    where: str = ""
    replay: bool = True


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client and what it may."""

    name: str
    brokers: tuple[str, ...]
    publishes: tuple[str, ...]
    subscribes: Mapping[str, Subscription]
    attributes: Mapping[str, Any]
    """Its roles among them."""


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker, and the sealed attributes of each type whose keys it needs: no more than its clients do."""

    name: str
    history: str
    reads: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Application:
    """An event application that makes sense."""

    name: str
    domain: str
    owner: str
    types: Mapping[str, TypeSpec]
    brokers: Mapping[str, BrokerSpec]
    clients: Mapping[str, ClientSpec]
    rules: Mapping[str, str] = field(default_factory=dict)
    """The text of files of rules, by name."""

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.owner, *(each.owner for each in self.types.values())]))


def read_application(path: Path) -> Application:
    """The application that a file describes. Raises FileRefused, InvalidApplication."""
    text = read_file(path, lambda text, source: text)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FileRefused(path, f"is not YAML: {' '.join(str(error).split())}") from None
    try:
        read = msgspec.convert(document, ApplicationText)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `")
        where = _place(document, place.strip("`")) if "[...]" in place else place.strip("$.`")
        raise InvalidApplication(str(path), where or "at the top", _plainly(problem)) from None
    return _Checker(path, read).application()


def _place(document: Any, place: str) -> str:
    """Where something is wrong: msgspec leaves out the names under which it stands, so each is tried by itself."""
    kinds: dict[str, Any] = {"types": TypeText, "brokers": BrokerText, "clients": ClientText}
    section = place.removeprefix("$.").partition("[")[0]
    for name, each in document[section].items() if section in kinds else ():
        try:
            msgspec.convert(each, kinds[section])
        except msgspec.ValidationError:
            own = each.get("attributes") if section == "types" and isinstance(each, dict) else None
            bad = next((key for key, said in (own or {}).items() if not _fits(said)), None)
            return f"{section}.{name}" + (f".attributes.{bad}" if bad is not None else "")
    return place.strip("$.")


def _fits(said: object) -> bool:
    try:
        msgspec.convert(said, Attribute)
    except msgspec.ValidationError:
        return False
    return True


def _plainly(problem: str) -> str:
    """What msgspec says, in words for people."""
    if "matching regex" in problem and "clear" in problem:
        return f"must be one of {', '.join(AttributeType)}, and then perhaps `, sealed` or `, routed`"
    if "matching regex" in problem and "for ever" in problem:
        return "must be `for ever`, `nothing`, or a length such as 90d"
    if "matching regex" in problem:
        return "must be a word of letters, digits, `_` and `-`"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem)
    if unknown:
        return f"there is no `{unknown[1]}` here{_near(unknown[1], FIELDS)}"
    return problem[0].lower() + problem[1:]


def _near(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean `{near[0]}`?" if near else ""


class _Checker:
    """Looks whether everything that is named is there."""

    def __init__(self, path: Path, text: ApplicationText) -> None:
        self._path = path
        self._text = text
        self._name = text.application or path.stem

    def application(self) -> Application:
        text = self._text
        if not re.fullmatch(NAME, self._name):
            raise self._wrong("application", f"`{self._name}` must be a word of letters, digits, `_` and `-`")
        if not text.types or not text.clients:
            raise self._wrong("types" if not text.types else "clients", "must name at least one")
        types = {name: self._type(name, each) for name, each in text.types.items()}
        brokers = text.brokers or {self._name: BrokerText()}
        clients = {name: self._client(name, each, types, brokers) for name, each in text.clients.items()}
        hosted = {name: self._broker(name, each, types, clients) for name, each in brokers.items()}
        return Application(self._name, text.domain, text.owner, types, hosted, clients, self._rules())

    def _wrong(self, place: str, problem: str) -> InvalidApplication:
        return InvalidApplication(str(self._path), place, problem)

    def _type(self, name: str, text: TypeText) -> TypeSpec:
        attributes = {each: _attribute(said) for each, said in text.attributes.items()}
        if not attributes:
            raise self._wrong(f"types.{name}.attributes", "must name at least one")
        sealed = [each for each, spec in attributes.items() if spec.sealed]
        routed = [each for each, spec in attributes.items() if spec.sensitivity == ROUTED]
        if len(routed) > 1:
            raise self._wrong(f"types.{name}.attributes", f"only one can be routed, not {', '.join(routed)}")
        if routed and attributes[routed[0]].type not in ROUTABLE:
            kinds = ", ".join(ROUTABLE)
            raise self._wrong(f"types.{name}.attributes.{routed[0]}", f"what is routed is one of {kinds}")
        for group in text.together:
            self._all_known(f"types.{name}.together", group, sealed, "sealed attribute")
        return TypeSpec(
            name, text.owner or self._text.owner, attributes, text.keep, tuple(map(tuple, text.together))
        )

    def _client(
        self,
        name: str,
        text: ClientText,
        types: Mapping[str, TypeSpec],
        brokers: Mapping[str, BrokerText],
    ) -> ClientSpec:
        place = f"clients.{name}"
        if not text.broker and len(brokers) > 1:
            raise self._wrong(f"{place}.broker", f"must say which: {', '.join(brokers)}")
        said = text.broker or next(iter(brokers))
        hosts = (said,) if isinstance(said, str) else tuple(said)
        self._all_known(f"{place}.broker", hosts, brokers, "broker")
        self._all_known(f"{place}.publishes", text.publishes, types, "type")
        self._all_known(f"{place}.subscribes", list(text.subscribes), types, "type")
        wanted = {each: _subscription(what) for each, what in text.subscribes.items()}
        for each, subscription in wanted.items():
            where = f"{place}.subscribes.{each}"
            self._all_known(where, subscription.sees or (), types[each].attributes, "attribute")
            self._all_known(where, self._filtered(where, subscription), types[each].attributes, "attribute")
        attributes = {**text.attributes, **({"roles": text.roles} if text.roles else {})}
        return ClientSpec(name, hosts, tuple(text.publishes), wanted, attributes)

    def _filtered(self, place: str, subscription: Subscription) -> list[str]:
        try:
            return filtered(subscription.where)
        except AuthFabricError as error:
            raise self._wrong(place, f"`where` cannot be read: {error}") from None

    def _broker(
        self,
        name: str,
        text: BrokerText,
        types: Mapping[str, TypeSpec],
        clients: Mapping[str, ClientSpec],
    ) -> BrokerSpec:
        self._all_known(f"brokers.{name}.reads", list(text.reads), types, "type")
        reads: dict[str, set[str]] = {each: set() for each in types}
        for type_, said in text.reads.items():
            self._all_known(
                f"brokers.{name}.reads.{type_}",
                [] if said == "all" else said,
                types[type_].attributes,
                "attribute",
            )
            reads[type_].update(types[type_].attributes if said == "all" else said)
        for client in clients.values():
            if name not in client.brokers:
                continue
            for type_ in client.publishes:
                reads[type_].update(types[type_].attributes)
            for type_, each in client.subscribes.items():
                seen = types[type_].attributes if each.sees is None else each.sees
                reads[type_].update([*seen, *filtered(each.where)])
        needed = {
            type_: tuple(each for each in types[type_].sealed if each in names)
            for type_, names in reads.items()
        }
        return BrokerSpec(name, text.history, {type_: names for type_, names in needed.items() if names})

    def _rules(self) -> dict[str, str]:
        rules = self._text.rules
        if isinstance(rules, str):
            return {"rules": rules} if rules.strip() else {}
        found: dict[str, str] = {}
        for each in rules:
            name = Path(each).stem
            if name in ("clients", *found):
                raise self._wrong("rules", f"`{each}` must be called otherwise: `{name}.rules` is taken")
            found[name] = read_file(self._path.parent / each, lambda text, source: text)
        return found

    def _all_known(self, place: str, names: Sequence[str], known: Collection[str], what: str) -> None:
        for each in names:
            if each not in known:
                near = _near(each, known) or f": there is {', '.join(known) or 'none'}"
                raise self._wrong(place, f"there is no {what} `{each}`{near}")


def filtered(where: str) -> list[str]:
    """The attributes that a filter speaks of. Raises InvalidSyntax."""
    return sorted({str(path.keys[0]) for path in paths(parse_filter(where)) if path.root == "event"})


def _attribute(text: str) -> AttributeSpec:
    type_, _, sensitivity = text.partition(",")
    return AttributeSpec(AttributeType(type_), sensitivity.strip() or "clear")


def _subscription(said: object) -> Subscription:
    if isinstance(said, SubscriptionText):
        return Subscription(None if said.sees == "all" else tuple(said.sees), said.where.strip(), said.replay)
    return Subscription(None if said == "all" else tuple(msgspec.convert(said, list[str])))
