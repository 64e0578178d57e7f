"""The processes that an application needs: a key manager for each sealed type, and its brokers, as command lines."""

from __future__ import annotations

import yaml

from authfabric.applications.document import Application, BrokerSpec, TypeSpec
from authfabric.applications.folder import ApplicationFolder, stamp
from authfabric.files import replace_file
from authfabric.processes import Hosted, HostedApplication, HostedKind


def hosted_application(folder: ApplicationFolder) -> HostedApplication:
    """What is to run, by the files that are there now."""
    app = folder.application
    _write_keep(folder)
    managers = [_manager(folder, each) for each in app.types.values() if each.sealed]
    return HostedApplication(app.name, (*managers, *(_broker(folder, each) for each in app.brokers.values())))


def process_names(app: Application) -> list[str]:
    """What the processes are called."""
    managers = [_manager_name(app, each) for each in app.types.values() if each.sealed]
    return [*managers, *(_broker_name(app, each) for each in app.brokers.values())]


def _manager(folder: ApplicationFolder, spec: TypeSpec) -> Hosted:
    appointment = folder.appointment_file(spec.name)
    words = ["keys", "serve", spec.name, "--key", str(folder.manager_file)]
    words += ["--appointment", str(appointment), "--back"]
    words += [word for each in spec.clear for word in ("--clear", each)]
    words += [word for each in spec.together for word in ("--together", ",".join(each))]
    read = (appointment, folder.type_file(spec.name))
    return Hosted(_manager_name(folder.application, spec), HostedKind.MANAGER, tuple(words), stamp(read))


def _broker(folder: ApplicationFolder, broker: BrokerSpec) -> Hosted:
    app = folder.application
    issuer = folder.owner_file(app.owner).with_suffix(".pub")
    vouches = [folder.vouch_file(broker.name, each) for each in app.owners]
    rights = {each: folder.capability_file(broker.name, each) for each in broker.reads}
    words = ["broker", "serve", "--name", broker.name, "--domain", app.domain]
    words += ["--key", str(folder.broker_file(broker.name)), "--clients", f"{app.domain}={issuer}"]
    words += [word for each in vouches for word in ("--vouch", str(each))]
    words += [word for type_, file in rights.items() for word in ("--sealed", f"{type_}={file}")]
    if broker.history:
        words += ["--history", broker.history, "--keep", str(folder.keep_file)]
    read = (*vouches, *rights.values(), folder.keep_file)
    return Hosted(_broker_name(app, broker), HostedKind.BROKER, tuple(words), stamp(read))


def _write_keep(folder: ApplicationFolder) -> None:
    """What is kept of which type, as `broker serve --keep` reads it."""
    entries = [{"type": each.name, "keep": each.keep} for each in folder.application.types.values()]
    replace_file(folder.keep_file, yaml.safe_dump(entries, sort_keys=False))


def _manager_name(app: Application, spec: TypeSpec) -> str:
    return f"{app.name}-keys-{spec.name}"


def _broker_name(app: Application, broker: BrokerSpec) -> str:
    return f"{app.name}-broker-{broker.name}"
