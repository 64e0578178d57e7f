"""What is to be done so that things are as an application says: one step after another, none of them yet done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TypeVar
from uuid import uuid4

from authfabric.applications.definitions import define
from authfabric.applications.document import Application, BrokerSpec, ClientSpec, TypeSpec
from authfabric.applications.folder import ApplicationFolder
from authfabric.applications.hosting import hosted_application, process_names, restarts
from authfabric.applications.policies import policy_files, with_application
from authfabric.applications.store import ApplicationStore
from authfabric.files import write_type
from authfabric.processes import note_hosted, read_hosted
from authfabric.terminal import counted
from authz import AuthFabricError
from pubsub_core.client import known_profiles, profile_path, read_profile_file, write_profile
from pubsub_core.types import Added, Attribute, Edit, EventType, Removed, Retyped, SignedType, apply

_T = TypeVar("_T")
_Do = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is made (`+`), changed (`~`) or taken away (`-`)."""

    sign: str
    text: str
    do: _Do
    loses: bool = False
    """Whether somebody loses something by it, so that it is not done unasked."""
    writes: tuple[Path, ...] = ()
    """The files that it writes and that processes read."""


class NameTaken(AuthFabricError):
    """A profile that belongs to another application."""

    def __init__(self, client: str, path: Path, application: str) -> None:
        other = f"the application `{application}`" if application else "something else"
        super().__init__(f"the profile `{client}` (`{path}`) is of {other}: call the client otherwise")
        self.client = client


class RoutedOtherwise(AuthFabricError):
    """A type that is there already, and whose events are routed by another attribute, or by none."""

    def __init__(self, type_: str, routed: str) -> None:
        now = f"by `{routed}`" if routed else "by no attribute"
        super().__init__(
            f"events of `{type_}` are routed {now}, and that cannot change: give the type another name"
        )
        self.type = type_


class Steps:
    """Finds out what is to be done."""

    def __init__(self, folder: ApplicationFolder, store: ApplicationStore) -> None:
        self._folder = folder
        self._store = store
        self._app: Application = folder.application

    async def find(self) -> list[Step]:
        """What is to be done, in order. Raises what the bus raises, NameTaken, FileRefused, RoutedOtherwise."""
        published = await self._store.versions()
        steps = [*self._keys(), *self._types(published), *self._trust(), *self._clients()]
        return [*steps, *await self._policies(), *self._processes(steps)]

    def _keys(self) -> Iterator[Step]:
        folder, app = self._folder, self._app
        wanted = {f"owner {each}": folder.owner_file(each) for each in app.owners}
        if any(each.sealed for each in app.types.values()):
            wanted["key manager"] = folder.manager_file
        wanted |= {f"broker {each}": folder.broker_file(each) for each in app.brokers}
        new = {what: file for what, file in wanted.items() if not file.exists()}
        if new:
            text = f"keys for {', '.join(new)}, in {self._folder.path}"
            yield Step("+", text, _each(folder.make_key, list(new.values())))

    def _types(self, published: frozenset[str]) -> Iterator[Step]:
        for spec in self._app.types.values():
            signed, files = self._folder.signed_type(spec.name), (self._folder.type_file(spec.name),)
            if signed is None:
                attributes = ", ".join(
                    f"{name} ({each.sensitivity})" for name, each in spec.attributes.items()
                )
                yield Step(
                    "+", f"the type {spec.name}: {attributes}", self._defining(spec, None, ()), writes=files
                )
                continue
            check_routed(signed.definition, spec)
            changes = tuple(_edits(signed.definition, spec))
            if changes:
                yield Step(
                    "~",
                    f"the type {spec.name}: {', '.join(map(_said, changes))}",
                    self._defining(spec, signed.definition, changes),
                    any(isinstance(each, (Removed, Retyped)) for each in changes),
                    files,
                )
            elif signed.definition.version not in published:
                yield Step("+", f"the type {spec.name}, in the store", self._publishing(signed))

    def _defining(self, spec: TypeSpec, old: EventType | None, changes: tuple[Edit, ...]) -> _Do:
        async def defining() -> None:
            owner = self._folder.owner(spec.owner)
            definition = define(spec, owner.public) if old is None else apply(old, changes)
            signed = SignedType.sign(definition, owner, at=time())
            await self._store.publish(signed)
            file = self._folder.type_file(spec.name)
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.unlink(missing_ok=True)
            write_type(file, signed)

        return defining

    def _publishing(self, signed: SignedType) -> _Do:
        return lambda: self._store.publish(signed)

    def _trust(self) -> Iterator[Step]:
        folder, app = self._folder, self._app
        unmanaged = [
            each for each in app.types.values() if each.sealed and not folder.is_appointed(each.name)
        ]
        if unmanaged:
            names = ", ".join(each.name for each in unmanaged)
            files = tuple(folder.appointment_file(each.name) for each in unmanaged)
            text = f"a key manager for {names}, appointed by the owner"
            yield Step("+", text, self._appointing(unmanaged), writes=files)
        for owner in app.owners:
            new = [each for each in app.brokers if not folder.is_vouched(each, owner)]
            if new:
                files = tuple(folder.vouch_file(each, owner) for each in new)
                yield Step(
                    "+", f"{owner} vouches for {', '.join(new)}", self._vouching(owner, new), writes=files
                )
        for broker in app.brokers.values():
            for spec in app.types.values():
                yield from self._capability(broker, spec)
        for former in folder.former_brokers():
            yield Step(
                "-", f"the broker {former}: its key, and all trust in it", self._dismissing(former), True
            )

    def _dismissing(self, broker: str) -> _Do:
        async def dismissing() -> None:
            await self._store.dismiss(self._folder, broker)
            self._folder.forget(broker)

        return dismissing

    def _vouching(self, owner: str, brokers: list[str]) -> _Do:
        return _each(lambda broker: self._folder.vouch(broker, owner), brokers)

    def _appointing(self, specs: list[TypeSpec]) -> _Do:
        return _each(self._folder.appoint, specs)

    def _capability(self, broker: BrokerSpec, spec: TypeSpec) -> Iterator[Step]:
        folder = self._folder
        old, needed = folder.capability(broker.name, spec.name), broker.reads.get(spec.name, ())
        if needed and folder.is_capable(broker, spec):
            return
        if not needed and not old:
            return
        what = f"keys of {spec.name} for the broker {broker.name}"

        async def change() -> None:
            if old:  # before it is forgotten here
                await self._store.revoke(folder, spec.owner, old)
            if needed:
                folder.empower(broker, spec)
            else:
                folder.capability_file(broker.name, spec.name).unlink()

        if not needed:
            yield Step("-", f"{what}: none of its clients needs them", change, True)
        else:
            file = folder.capability_file(broker.name, spec.name)
            yield Step("~" if old else "+", f"{what}: {', '.join(needed)}", change, bool(old), (file,))

    def _clients(self) -> Iterator[Step]:
        folder = self._folder
        for client in self._app.clients.values():
            known = folder.profile(client.name)
            if known is not None and known.application != self._app.name:
                raise NameTaken(client.name, profile_path(client.name), known.application)
            if not folder.is_profiled(client):
                sign = "~" if known is not None else "+"
                yield Step(sign, _client_text(client), self._profiling(client))
        gone = [each for each in self._profiles() if each not in self._app.clients]
        for each in gone:
            yield Step("-", f"the client {each}, and its profile", _doing(profile_path(each).unlink), True)

    def _profiling(self, client: ClientSpec) -> _Do:
        return _doing(lambda: write_profile(profile_path(client.name), self._folder.issue_profile(client)))

    def _profiles(self) -> list[str]:
        """The profiles that were made for this application."""
        return [
            each
            for each in known_profiles()
            if read_profile_file(profile_path(each)).application == self._app.name
        ]

    async def _policies(self) -> list[Step]:
        bundle = await self._store.bundle()
        wanted = with_application(bundle, self._app)
        if wanted == bundle:
            return []
        own = {each.path for each in policy_files(self._app)}
        known = any(each.path in own for each in bundle.files)
        others = len([each for each in bundle.files if each.path not in own])
        beside = f", beside the {counted(others, 'file')} of policies in force" if others else ""
        text = f"policies: what the clients may{beside}"
        return [Step("~" if known else "+", text, lambda: self._store.release(wanted, self._app.name))]

    def _processes(self, steps: Iterable[Step]) -> Iterator[Step]:
        noted = read_hosted(self._app.name)
        wanted, had = process_names(self._app), [each.name for each in noted.processes] if noted else []
        new, gone = (
            [each for each in one if each not in other] for one, other in ((wanted, had), (had, wanted))
        )
        if new:
            yield Step("+", f"runs {', '.join(new)}", self.host)
        if noted is not None:
            rewritten = {file for each in steps for file in each.writes}
            for name, why in restarts(self._folder, noted, rewritten):
                yield Step("~", f"starts {name} anew: {', '.join(why)}", self.host)
        if gone:
            yield Step("-", f"ends {', '.join(gone)}", self.host, True)

    async def host(self) -> None:
        """Have everything run that the application needs, by the files that are there now."""
        hosted = hosted_application(self._folder)
        if hosted != read_hosted(self._app.name):
            note_hosted(hosted)


def _doing(work: Callable[[], None]) -> _Do:
    async def do() -> None:
        work()

    return do


def _each(work: Callable[[_T], None], things: Iterable[_T]) -> _Do:
    async def do() -> None:
        for each in things:
            work(each)

    return do


def check_routed(old: EventType, spec: TypeSpec) -> None:
    """Pass if a type is routed as it is to be. Raises RoutedOtherwise."""
    routed = {each.id: each.name for each in old.attributes}.get(old.carriage.routed, "")
    if routed != spec.routed:
        raise RoutedOtherwise(spec.name, routed)


def _edits(old: EventType, spec: TypeSpec) -> Iterator[Edit]:
    known = {each.name: each for each in old.attributes}
    for name, each in known.items():
        if name not in spec.attributes:
            yield Removed(each)
        elif spec.attributes[name].type is not each.type:
            yield Retyped(each, spec.attributes[name].type)
    for name, wanted in spec.attributes.items():
        if name not in known:
            yield Added(Attribute(name, uuid4().hex, wanted.type))


def _said(change: Edit) -> str:
    match change:
        case Added(attribute):
            return f"{attribute.name} is new"
        case Removed(attribute):
            return f"{attribute.name} goes"
        case Retyped(attribute, type_):
            return f"{attribute.name} becomes {type_}"
    return f"{change.attribute.name} changes"


def _client_text(client: ClientSpec) -> str:
    does = [f"publishes {', '.join(client.publishes)}"] if client.publishes else []
    for type_, each in client.subscribes.items():
        seen = "all" if each.sees is None else ", ".join(each.sees)
        does.append(f"sees {seen} of {type_}" + (f" where {each.where}" if each.where else ""))
    return f"the client {client.name} at {', '.join(client.brokers)}: {'; '.join(does) or 'as rules say'}"
