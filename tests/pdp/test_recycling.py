"""What caches conclude from decisions by roles and by labels is what the engine would have decided."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Request
from pdp.engine.engine import Engine
from pdp.labels.labels import LabelSource
from pdp.labels.reader import read_label_policy
from pdp.oasis import Domains, RoleSource, parse
from sdp_cache.inference.saam_blp import SaamBlp
from sdp_cache.inference.saam_rbac import SaamRbac
from sdp_cache.validity.change_log import ChangeLog

ROLES = RoleSource(
    Domains(
        [
            parse("""
                role clerk, manager, doctor(d), treating(d, p)
                manager > clerk
                clerk |- privilege(read, "/file")
                doctor(_) |- privilege(read, "/lobby")
                treating(d, p) |- privilege(read, "/patients/{p}")
                clerk, [context.hour < 18] |- privilege(read, "/till")
                manager |- privilege(read, "/till")
                doctor(d) |- privilege(*, "/notes/{d}")
            """)
        ]
    ).everything()
)
LABELS = """
levels: [low, high]
categories: [a, b]
dominance: {dominance}
subjects: {{attribute: clearance, table: {{ann: high, bob: low, cyd: "high {{a}}", dan: "high {{a, b}}"}}}}
objects: {{attribute: classification, table: {{/file: high, /lobby: low, /till: "low {{a}}", /notes/*: "high {{b}}"}}}}
"""
PERMITS, RESTRICTS = (
    LabelSource(read_label_policy(LABELS.format(dominance=each)), sole=True)
    for each in ("permits", "restricts")
)

requests = st.builds(
    lambda subject, roles, clearance, object_, action, hour: Request.of(
        Entity(subject, {"roles": roles, "clearance": clearance}), object_, action, {"hour": hour}
    ),
    st.sampled_from(["ann", "bob", "cyd", "dan", "eve"]),
    st.lists(
        st.sampled_from(["clerk", "manager", "doctor(d1)", "treating(d1, p1)"]), unique=True, max_size=3
    ),
    st.sampled_from(["low", "high", None]),
    st.sampled_from(["/file", "/lobby", "/till", "/patients/p1", "/notes/d1", "/elsewhere"]),
    st.sampled_from(["read", "append", "write"]),
    st.sampled_from([9, 20]),
)
engines = st.sampled_from([[ROLES], [PERMITS], [RESTRICTS], [ROLES, PERMITS], [ROLES, RESTRICTS]]).map(Engine)


@given(engines, st.lists(requests, max_size=40))
@settings(max_examples=100)
def test_no_inferred_answer_differs_from_what_the_engine_decides(engine, asked):
    log = ChangeLog()
    caches = [SaamRbac(log), SaamBlp(log)]
    for number, request in enumerate(asked):
        decision: Decision = engine.evaluate(request)
        for cache in caches:
            inferred = cache.infer(request, 0.0)
            assert inferred is None or inferred.allowed is decision.allowed
            cache.learn(request, decision, str(number))
    assert [cache.contradictions for cache in caches] == [0, 0]


def test_both_caches_do_conclude_something():
    log = ChangeLog()
    by_roles, by_labels = SaamRbac(log), SaamBlp(log)
    first = Request.of(Entity("ann", {"roles": ["clerk"]}), "/file", "read")
    by_roles.learn(first, Engine([ROLES]).evaluate(first), "1")
    inferred = by_roles.infer(Request.of(Entity("bob", {"roles": ["clerk", "x"]}), "/file", "read"), 0.0)
    assert inferred is not None
    assert inferred.allowed
    engine = Engine([ROLES, RESTRICTS])
    for subject, object_, action in (("bob", "/file", "read"), ("bob", "/lobby", "append")):
        request = Request.of(subject, object_, action)
        by_labels.learn(request, engine.evaluate(request), "2")
    refused = by_labels.infer(Request.of("bob", "/file", "read"), 0.0)
    assert refused is not None
    assert not refused.allowed
