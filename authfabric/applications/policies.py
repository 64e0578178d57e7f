"""The policies that an application amounts to: who connects where, publishes what and sees which attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from authfabric.applications.document import Application, ClientSpec, Subscription
from pdp.bundle import Bundle, File

FOLDER = "applications"
"""Where the policies of applications stand in a bundle, beside whatever else is released."""

_RULES = "clients"
"""The file of rules that lets clients in as the application says."""


def with_application(bundle: Bundle, application: Application) -> Bundle:
    """The same bundle, in which this application's policies take the place of those it had."""
    own = f"{FOLDER}/{application.name}/"
    others = [each for each in bundle.files if not each.path.startswith(own)]
    return Bundle.of([*others, *policy_files(application)])


def policy_files(application: Application) -> list[File]:
    """What is released for an application."""
    own = f"{FOLDER}/{application.name}"
    policies = [policy for each in application.clients.values() for policy in _client(application, each)]
    heading = f"# Made by `authfabric event apply` for the application {application.name}.\n"
    text = heading + yaml.safe_dump(policies, sort_keys=False, allow_unicode=True, width=110)
    rules = dict(application.rules)
    if rules and (allowed := list(_allowed(application))):
        rules[_RULES] = heading + "".join(allowed)
    written = [File(f"{own}/{name}.rules", text) for name, text in rules.items()]
    return [File(f"{own}/clients.yaml", text), *written]


def _allowed(application: Application) -> Iterator[str]:
    """A rule for each subscription: where rules govern a type, nobody gets in by another policy alone."""
    for client in application.clients.values():
        for type_, each in client.subscribes.items():
            label = re.sub(r"\W", "_", f"{client.name}_{type_}")
            who = f"WHERE user = '{client.name}'\n"
            yield f"{label}: ALLOW SUBSCRIPTION TO {type_} {who}"
            if each.replay:
                yield f"{label}_past: ALLOW REPLAY OF {type_} {who}"


def _client(application: Application, client: ClientSpec) -> list[dict[str, Any]]:
    own = f"{application.name}-{client.name}"
    hosts = [f"/brokers/{each}" for each in client.brokers]
    policies = [_allow(f"{own}-connects", client, hosts, ["connect"])]
    if client.publishes:
        things = [f"/types/{each}" for each in client.publishes]
        policies.append(_allow(f"{own}-publishes", client, things, ["advertise", "publish"]))
    for type_, each in client.subscribes.items():
        actions = ["subscribe", "replay"] if each.replay else ["subscribe"]
        policy = _allow(f"{own}-sees-{type_}", client, f"/types/{type_}", actions)
        if obligations := _obligations(each):
            policy["obligations"] = obligations
        policies.append(policy)
    return policies


def _allow(uid: str, client: ClientSpec, things: str | list[str], actions: list[str]) -> dict[str, Any]:
    targets: Mapping[str, Any] = {"subject_id": client.name, "resource_id": things, "action_id": actions}
    return {"uid": uid, "effect": "allow", "targets": dict(targets), "rules": {}}


def _obligations(subscription: Subscription) -> list[dict[str, Any]]:
    seen = [] if subscription.sees is None else [{"attributes": list(subscription.sees)}]
    return [*seen, *([{"filter": subscription.where}] if subscription.where else [])]
