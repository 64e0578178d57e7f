"""Templates lead to no other object, and obligations are met or deny."""

from __future__ import annotations

import subprocess
import sys

import pytest

from authz import Decision, InvalidRequest, Request
from pep.integrations.core import RouteMisfit, Template
from pep.obligations import Obligations

REQUEST = Request.of("ann", "/documents/1", "read")


@pytest.mark.parametrize("value", ["1/2", "/", "../1", ""])
def test_a_value_that_would_lead_elsewhere_is_refused(value: str):
    with pytest.raises(InvalidRequest, match="becomes part of"):
        Template("/documents/{id}").fill({"id": value})


def test_a_path_may_have_slashes_where_the_template_says_so():
    assert Template("/files/{rest:path}").fill({"rest": "a/b"}) == "/files/a/b"
    assert Template("/{kind}/{id}").fill({"kind": "notes", "id": 7, "more": 1}) == "/notes/7"


@pytest.mark.parametrize("text", ["/a/{", "/a/{b!r}", "/a/{b.c}", "/a/{b[0]}", "/a/{}"])
def test_a_template_has_plain_fields_only(text: str):
    with pytest.raises(ValueError, match="must have fields such as"):
        Template(text)


def test_a_field_that_the_route_has_not_is_the_developers_mistake():
    with pytest.raises(RouteMisfit, match=r"`/documents/{ident}` needs `ident`, and the route has `id`"):
        Template("/documents/{ident}").fill({"id": "1"})


async def test_every_obligation_is_met_in_turn():
    duties = Obligations()
    seen = []

    @duties.obligation("log", before=True)
    async def log(value, request):
        seen.append((value, str(request)))

    @duties.obligation("add")
    def add(value, result):
        return result + value

    decision = Decision(True, obligations=({"add": 1}, {"log": "x", "add": 2}))
    plan = duties.plan(REQUEST, decision, result=True)
    await plan.begin()
    assert seen == [("x", "ann read /documents/1")]
    assert await plan.finish(10) == 13


def test_an_obligation_that_cannot_be_met_is_a_denial():
    duties = Obligations()
    duties.obligation("mask")(lambda value, result: result)
    unknown = Decision(True, obligations=({"mask": 1}, {"watermark": 1}))
    assert not duties.plan(REQUEST, unknown, result=True).decision.allowed
    needs_result = Decision(True, obligations=({"mask": 1},))
    assert duties.plan(REQUEST, needs_result, result=True).decision.allowed
    assert not duties.plan(REQUEST, needs_result, result=False).decision.allowed


def test_a_thread_does_not_wait_for_a_coroutine():
    duties = Obligations()

    @duties.obligation("mask")
    async def mask(value, result):
        return result

    plan = duties.plan(REQUEST, Decision(True, obligations=({"mask": 1},)), result=True)
    with pytest.raises(TypeError, match="plain function"):
        plan.finish_now({})


def test_no_framework_is_imported_before_it_is_used():
    heavy = ["fastapi", "flask", "django", "grpc", "faststream", "fastmcp", "starlette", "pdp"]
    program = f"import sys, pep.integrations; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
