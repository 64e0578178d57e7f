"""The processes that an application needs: a key manager for each sealed type, and its brokers, as command lines.

Each comes with what it goes by, in the user's words, so that it can be said why it must be started again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import yaml

from authfabric.applications.document import Application, BrokerSpec, TypeSpec
from authfabric.applications.document_schema import FOR_EVER
from authfabric.applications.folder import ApplicationFolder, stamp
from authfabric.files import replace_file
from authfabric.processes import Hosted, HostedApplication, HostedKind, differences


def hosted_application(folder: ApplicationFolder) -> HostedApplication:
    """What is to run, by the files that are there now."""
    app = folder.application
    replace_file(folder.keep_file, _keep_text(app))
    return _processes(folder)


def restarts(
    folder: ApplicationFolder, noted: HostedApplication, rewritten: Collection[Path]
) -> Iterator[tuple[str, list[str]]]:
    """Which of the processes that run must be started again once these files are rewritten, and why."""
    running = {each.name: each for each in noted.processes}
    for wanted in _processes(folder, rewritten).processes:
        if (old := running.get(wanted.name)) is not None and old != wanted:
            yield wanted.name, differences(old, wanted)


def _processes(folder: ApplicationFolder, rewritten: Collection[Path] = ()) -> HostedApplication:
    """What is to run, by the files that are there and those that are about to be rewritten."""
    app = folder.application
    managers = [_manager(folder, each, rewritten) for each in app.types.values() if each.sealed]
    brokers = [_broker(folder, each, rewritten) for each in app.brokers.values()]
    return HostedApplication(app.name, (*managers, *brokers))


def process_names(app: Application) -> list[str]:
    """What the processes are called."""
    managers = [_manager_name(app, each) for each in app.types.values() if each.sealed]
    return [*managers, *(_broker_name(app, each) for each in app.brokers.values())]


def _manager(folder: ApplicationFolder, spec: TypeSpec, rewritten: Collection[Path]) -> Hosted:
    appointment = folder.appointment_file(spec.name)
    words = ["keys", "serve", spec.name, "--key", str(folder.manager_file)]
    words += ["--appointment", str(appointment), "--back"]
    words += [word for each in spec.clear for word in ("--clear", each)]
    words += [word for each in spec.together for word in ("--together", ",".join(each))]
    name = _manager_name(folder.application, spec)
    goes_by = {
        "its appointment": _stamp(appointment, rewritten),
        f"the type {spec.name}": _stamp(folder.type_file(spec.name), rewritten),
        "which attributes share a key": repr((spec.clear, spec.together)),
    }
    return Hosted(name, HostedKind.MANAGER, tuple(words), goes_by)


def _broker(folder: ApplicationFolder, broker: BrokerSpec, rewritten: Collection[Path]) -> Hosted:
    app = folder.application
    issuer = folder.owner_file(app.owner).with_suffix(".pub")
    vouches = {each: folder.vouch_file(broker.name, each) for each in app.owners}
    rights = {each: folder.capability_file(broker.name, each) for each in broker.reads}
    words = ["broker", "serve", "--name", broker.name, "--domain", app.domain]
    words += ["--key", str(folder.broker_file(broker.name)), "--clients", f"{app.domain}={issuer}"]
    words += [word for file in vouches.values() for word in ("--vouch", str(file))]
    words += [word for type_, file in rights.items() for word in ("--sealed", f"{type_}={file}")]
    goes_by = {f"the word of {owner} for it": _stamp(file, rewritten) for owner, file in vouches.items()}
    goes_by |= {f"its keys of {type_}": _stamp(file, rewritten) for type_, file in rights.items()}
    if broker.history:
        words += ["--history", broker.history, "--keep", str(folder.keep_file)]
        goes_by |= {"where its history is": broker.history, "what is kept": stamp(_keep_text(app).encode())}
    return Hosted(_broker_name(app, broker), HostedKind.BROKER, tuple(words), goes_by)


def _stamp(file: Path, rewritten: Collection[Path]) -> str:
    """What tells what stands in a file from anything else; nothing yet if it is about to be rewritten."""
    return "" if file in rewritten or not file.exists() else stamp(file.read_bytes())


def _keep_text(app: Application) -> str:
    """What is kept of which type, as `broker serve --keep` reads it: what is not named is kept for ever."""
    entries = [{"type": each.name, "keep": each.keep} for each in app.types.values() if each.keep != FOR_EVER]
    return yaml.safe_dump(entries, sort_keys=False)


def _manager_name(app: Application, spec: TypeSpec) -> str:
    return f"{app.name}-keys-{spec.name}"


def _broker_name(app: Application, broker: BrokerSpec) -> str:
    return f"{app.name}-broker-{broker.name}"
