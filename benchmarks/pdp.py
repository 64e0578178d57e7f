"""What a decision costs the engine, against py-abac and the other engines there are, on the same requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from time import thread_time

from authz import Request
from benchmarks import harness
from benchmarks.harness import at_least, at_most, main
from benchmarks.rivals import policy_engines
from benchmarks.workloads.policies import Workload, projects, roles, unindexable
from pdp.abac import AbacSource, Algorithm, Oracle, Policy, read_policies, read_policy
from pdp.bundle import Bundle, File, PolicySet
from pdp.engine import Engine

PROMISES = {
    "vs_py_abac_1000": at_least(500),
    "vs_best_peer_10": at_least(5),
    "vs_best_peer_1000": at_least(30),
    "vs_best_peer_rbac": at_least(4),
    "growth_10_to_10000": at_most(5),
    "certificate_cost": at_most(2),
    "role_read_ratio": at_most(1.2),
    "role_read_conditions_ratio": at_most(1.2),
    "role_read_lines_ratio": at_most(1.2),
}
REQUESTS = 100
MANY = 40
"""Rounds for what takes milliseconds."""
PASSES = 5
"""How often each of these rounds asks all requests."""


def run() -> dict[str, float]:
    """Microseconds for a decision, from Request to Decision, and how many times longer others take."""
    few, many, held = projects(10, REQUESTS), projects(1000, REQUESTS), roles(REQUESTS)
    ten, thousand, by_role = (_race(each) for each in (few, many, held))
    figures = {
        "vs_py_abac_1000": thousand["py_abac"] / thousand["engine"],
        "vs_best_peer_10": _best_peer(ten) / ten["engine"],
        "vs_best_peer_1000": _best_peer(thousand) / thousand["engine"],
        "vs_best_peer_rbac": _best_peer(by_role) / by_role["engine"],
        **_growth(),
        **_certificates(),
        "load_10000_s": _load(),
        **_role_reading(),
    }
    for size, times in (("10", ten), ("1000", thousand), ("rbac", by_role)):
        figures |= {f"{name}_{size}_us": seconds * 1e6 for name, seconds in times.items()}
    return figures


# Deciding waits for nothing, so the time of its thread is all it takes, also on a machine that is busy.
best = partial(harness.best, clock=thread_time)
best_of_each = partial(harness.best_of_each, clock=thread_time)


def _engine(workload: Workload, certify: bool = False) -> Engine:
    policies = [read_policy(each) for each in workload.policies]
    return Engine([AbacSource(policies, Algorithm.DENY_OVERRIDES)], certify=certify)


def _rivals(workload: Workload) -> dict[str, policy_engines.Peer]:
    policies: list[Policy] = [read_policy(each) for each in workload.policies]
    known = workload.requests if "roles" in workload.requests[0].subject.attributes else ()
    return {
        "py_abac": Oracle(workload.policies, Algorithm.DENY_OVERRIDES),
        "vakt": policy_engines.Vakt(policies),
        "cel": policy_engines.Cel(policies),
        "yacedar": policy_engines.Yacedar(policies, known),
        "cedarpy": policy_engines.Cedarpy(policies, known),
        "casbin": policy_engines.CasbinRoles(policies, known)
        if known
        else policy_engines.CasbinAttributes(policies),
    }


def _race(workload: Workload) -> dict[str, float]:
    """Seconds for one decision by each, after checking that all decide alike."""
    evaluate, rivals = _engine(workload).evaluate, _rivals(workload)
    for request in workload.requests:
        allowed = evaluate(request).allowed
        for name, rival in rivals.items():
            if rival.allows(request) is not allowed:
                raise AssertionError(f"{name} does not agree that {request!r} is {allowed}")
    asked = workload.requests
    times = best_of_each({name: partial(_ask, each.allows, asked) for name, each in rivals.items()})
    times["engine"] = best(partial(_ask, evaluate, asked, PASSES), MANY) / PASSES
    return {name: seconds / len(asked) for name, seconds in times.items()}


def _ask(answer: Callable[[Request], object], requests: list[Request], times: int = 1) -> None:
    for _ in range(times):
        for request in requests:
            answer(request)


def _best_peer(times: dict[str, float]) -> float:
    return min(seconds for name, seconds in times.items() if name not in ("engine", "py_abac"))


def _growth() -> dict[str, float]:
    """A thousand different requests to each, so that the large set is walked through and not only warmed up."""
    few, many, hard = projects(10), projects(10_000), unindexable(1000)
    times = best_of_each(
        {
            "few": partial(_ask, _engine(few).evaluate, few.requests, PASSES),
            "many": partial(_ask, _engine(many).evaluate, many.requests, PASSES),
        },
        MANY,
    )
    each = best(partial(_ask, _engine(hard).evaluate, hard.requests)) / len(hard.requests)
    return {"growth_10_to_10000": times["many"] / times["few"], "unindexable_1000_us": each * 1e6}


def _certificates() -> dict[str, float]:
    workload = projects(1000)
    plain, certified = _engine(workload), _engine(workload, certify=True)
    _ask(certified.evaluate, workload.requests)  # what is found out once for each policy
    times = best_of_each(
        {
            "plain": partial(_ask, plain.evaluate, workload.requests, PASSES),
            "certified": partial(_ask, certified.evaluate, workload.requests, PASSES),
        },
        MANY,
    )
    return {"certificate_cost": times["certified"] / times["plain"]}


def _load() -> float:
    """Seconds from the text of 10,000 policies to an engine that can decide."""
    text = json.dumps(projects(10_000, 1).policies)
    return best(lambda: Engine([AbacSource(read_policies(text), Algorithm.DENY_OVERRIDES)]), 3)


def _role_reading() -> dict[str, float]:
    """How much longer 10,000 role rules are read than JSON policies that say the same: also conditional, over lines."""
    figures = {}
    for name, condition, space in (
        ("role_read_ratio", "", " "),
        ("role_read_conditions_ratio", ", [subject.level >= 3]", " "),
        ("role_read_lines_ratio", ",\n  [subject.level >= 3]", "\n  "),
    ):
        asked = {"$.level": {"condition": "Gte", "value": 3}} if condition else {}
        rules, policies = [f"role role{n}" for n in range(100)], []
        for number in range(10_000):
            role, place = f"role{number % 100}", f"/objects/{number}"
            rules.append(f'{role}{condition}{space}|- privilege(read, "{place}")')
            subject = {"$.roles": {"condition": "AnyIn", "values": [role]}, **asked}
            targets = {"resource_id": place, "action_id": "read"}
            policies.append(
                {"uid": str(number), "effect": "allow", "targets": targets, "rules": {"subject": subject}}
            )
        read = {
            "rules": Bundle.of([File("roles.oasis", "\n".join(rules) + "\n")]),
            "policies": Bundle.of([File("policies.json", json.dumps(policies))]),
        }
        times = best_of_each({each: partial(PolicySet.read, bundle) for each, bundle in read.items()}, 5)
        figures[name] = times["rules"] / times["policies"]
    return figures


if __name__ == "__main__":
    main(run)
