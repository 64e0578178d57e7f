"""The console as an ASGI application: pages, a stream of what changes, and what viewers may do.

Invariants: nothing but the sign-in page and the files it needs is shown to who has not signed in; nothing is changed
but by a form that carries the viewer's own word; each request is decided anew, by the fabric, and a stream that goes
on is decided again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic, time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from authfabric.console.live_service import Live
from authfabric.console.pages import FOLDER, HEADERS, fragment, page
from authfabric.console.questions import Asked, Questions
from authfabric.console.releasing import MOST_DIGITS, Releasing
from authfabric.console.viewers import Deed, Viewer, Viewers
from authz import AuthFabricError
from bus.audit import DecisionFilter
from pep import Enforcer

COOKIE = "authfabric-console"
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a form: policies may be edited in one."""
MOST_FIELDS = 20
"""Maximum fields of a form."""
TICK_SECONDS = 0.25
"""Time between two messages of what is new."""
RECHECK_SECONDS = 2.0
"""How often it is asked whether who follows what is new may still view it."""
MOST_LINES = 1000
"""Maximum decisions in one message; how many are left out is said."""
FIRST_LINES = 100
"""Decisions that a page begins with."""
STATIC = {"console.css": "text/css", "console.js": "text/javascript"}

Page = Callable[[HttpRequest, Viewer], Awaitable[Response]]


def console(live: Live, pep: Enforcer, viewers: Viewers, releasing: Releasing, hosts: list[str]) -> Starlette:
    """The application. `hosts` are the names under which it may be reached."""
    handlers = _Handlers(live, viewers, releasing, Questions(pep, live))
    app = Starlette(
        routes=handlers.routes(),
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        exception_handlers={HTTPException: _refuse, AuthFabricError: _fail},
    )
    app.router.redirect_slashes = False
    return app


class _Handlers:
    def __init__(self, live: Live, viewers: Viewers, releasing: Releasing, questions: Questions) -> None:
        self._live = live
        self._viewers = viewers
        self._releasing = releasing
        self._questions = questions

    def routes(self) -> list[Route]:
        get, both = ["GET"], ["GET", "POST"]
        return [
            Route("/sign-in", self._sign_in, methods=both),
            Route("/static/{name}", _static, methods=get),
            Route("/sign-out", self._guard(self._sign_out, Deed.VIEW), methods=["POST"]),
            Route("/", self._guard(self._overview, Deed.VIEW), methods=get),
            Route("/live", self._guard(self._stream, Deed.VIEW), methods=get),
            Route("/decisions", self._guard(self._decisions, Deed.VIEW), methods=get),
            Route("/why", self._guard(self._why, Deed.ASK), methods=get),
            Route("/policies", self._guard(self._policies, Deed.VIEW), methods=get),
            Route("/releases", self._guard(self._releases, Deed.VIEW), methods=get),
            Route("/diff", self._guard(self._diff, Deed.VIEW), methods=get),
            Route("/edit", self._guard(self._edit, Deed.RELEASE), methods=both),
            Route("/release", self._guard(self._release, Deed.RELEASE), methods=both),
            Route("/events", self._guard(self._events, Deed.VIEW), methods=get),
        ]

    def _guard(self, handler: Page, deed: Deed) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Only for those who have signed in, whom the fabric allows this, and by their own forms."""

        async def endpoint(request: HttpRequest) -> Response:
            viewer = self._viewers.find(request.cookies.get(COOKIE, ""))
            if viewer is None:
                if request.method == "GET" and request.url.path != "/live":
                    return RedirectResponse("/sign-in", 303, HEADERS)
                raise HTTPException(401, "sign in first")
            if not await self._viewers.may(viewer, deed):
                raise HTTPException(403, f"`{viewer.name}` may not {deed} here, by the policies in force")
            if request.method == "POST" and (await _form(request)).get("word") != viewer.form_word:
                raise HTTPException(
                    403, "this form is not from this console, or from before the last sign-in"
                )
            return await handler(request, viewer)

        return endpoint

    async def _common(self, viewer: Viewer, here: str) -> dict[str, Any]:
        may = {deed.value: await self._viewers.may(viewer, deed) for deed in Deed}
        return {"viewer": viewer, "here": here, "may": may, "view": self._live.watch()}

    async def _sign_in(self, request: HttpRequest) -> Response:
        if request.method == "GET":
            return page("sign_in.html", refused=False)
        session = await self._viewers.sign_in((await _form(request)).get("token", "").strip())
        if session is None:
            return page("sign_in.html", 401, refused=True)
        response = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    async def _sign_out(self, request: HttpRequest, viewer: Viewer) -> Response:
        self._viewers.sign_out(request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/sign-in", 303, HEADERS)
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _overview(self, request: HttpRequest, viewer: Viewer) -> Response:
        return page("overview.html", **await self._common(viewer, "/"), **self._numbers())

    def _numbers(self) -> dict[str, Any]:
        log, now = self._live.log, time()
        seconds = log.rates(now)
        most = max((each.allowed + each.denied + each.failed for each in seconds), default=0)
        recycled = sum(count for how, count in log.how.items() if how != "asked")
        return {
            "log": log,
            "seconds": seconds,
            "most": most,
            "rate": sum(each.allowed + each.denied + each.failed for each in seconds[-5:]) / 5,
            "recycled": recycled / log.heard if log.heard else 0.0,
            "unaudited": self._live.unaudited,
        }

    async def _decisions(self, request: HttpRequest, viewer: Viewer) -> Response:
        wanted = _filter(request)
        lines, _ = self._live.log.since(0, wanted, FIRST_LINES)
        common = await self._common(viewer, "/decisions")
        return page(
            "decisions.html",
            **common,
            wanted=wanted,
            lines=lines[::-1],
            query=urlsplit(str(request.url)).query,
            unaudited=self._live.unaudited,
        )

    async def _why(self, request: HttpRequest, viewer: Viewer) -> Response:
        asked = Asked.of(request.query_params)
        answer = await self._questions.answer(asked) if asked.whole else None
        return page("why.html", **await self._common(viewer, "/why"), asked=asked, answer=answer)

    async def _policies(self, request: HttpRequest, viewer: Viewer) -> Response:
        shelf = await self._releasing.shelf()
        name = request.query_params.get("file", "")
        return page(
            "policies.html", **await self._common(viewer, "/policies"), shelf=shelf, file=shelf.find(name)
        )

    async def _releases(self, request: HttpRequest, viewer: Viewer) -> Response:
        common = await self._common(viewer, "/releases")
        return page("releases.html", **common, able=self._releasing.able)

    async def _diff(self, request: HttpRequest, viewer: Viewer) -> Response:
        first, second = (_number(request.query_params.get(name, "")) for name in ("from", "to"))
        compared = await self._releasing.compare(first, second)
        return page("diff.html", **await self._common(viewer, "/releases"), compared=compared)

    async def _edit(self, request: HttpRequest, viewer: Viewer) -> Response:
        """A file of the policies in force, to be changed; and what the change would alter."""
        fields = await _form(request) if request.method == "POST" else dict(request.query_params)
        common = await self._common(viewer, "/policies")
        draft = await self._releasing.draft(fields.get("file", ""), fields.get("text"))
        return page("edit.html", **common, draft=draft, able=self._releasing.able)

    async def _release(self, request: HttpRequest, viewer: Viewer) -> Response:
        """Go back to an earlier release, or bring an edited file into force: previewed, then confirmed by typing."""
        common = await self._common(viewer, "/releases")
        fields = await _form(request) if request.method == "POST" else dict(request.query_params)
        plan = await self._releasing.plan(fields)
        problem = ""
        if request.method == "POST" and fields.get("confirm") is not None:
            if fields["confirm"].strip() == plan.phrase:
                done = await self._releasing.carry_out(plan, viewer.name, fields.get("message", ""))
                return RedirectResponse(f"/releases?done={done.epoch}", 303, HEADERS)
            problem = f"not done: type exactly `{plan.phrase}` to confirm"
        return page("release.html", 409 if problem else 200, **common, plan=plan, problem=problem)

    async def _events(self, request: HttpRequest, viewer: Viewer) -> Response:
        common = await self._common(viewer, "/events")
        return page("events.html", **common, types=await self._releasing.event_types())

    async def _stream(self, request: HttpRequest, viewer: Viewer) -> Response:
        return StreamingResponse(self._news(request, viewer), 200, HEADERS, "text/event-stream")

    async def _news(self, request: HttpRequest, viewer: Viewer) -> AsyncIterator[bytes]:
        """Parts of pages, whenever they change, as long as the viewer may see them.

        What cannot keep up is left out, and how much is said.
        """
        wanted, number, shown = _filter(request), self._live.log.heard, None
        session, checked = request.cookies.get(COOKIE, ""), monotonic()
        while self._viewers.find(session) is not None and not await request.is_disconnected():
            await asyncio.sleep(TICK_SECONDS)
            if monotonic() > checked + RECHECK_SECONDS:
                if not await self._viewers.may(viewer, Deed.VIEW):
                    return
                checked = monotonic()
            lines, missed = self._live.log.since(number, wanted, MOST_LINES)
            number = self._live.log.heard
            if lines or missed:
                rows = fragment("lines.html", lines=lines[::-1], may={"ask": True})
                yield _event("decisions", {"rows": rows, "shown": len(lines), "missed": missed})
            if (view := self._live.watch()) is not shown:
                shown = view
                yield _event("fabric", {"html": fragment("fabric.html", view=shown)})
                yield _event("numbers", {"html": fragment("numbers.html", **self._numbers())})


def _event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.encode(value))


def _filter(request: HttpRequest) -> DecisionFilter:
    def given(name: str) -> str:
        return request.query_params.get(name, "").strip()

    return DecisionFilter(
        given("subject"), given("object"), given("action"), given("effect"), given("policy")
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise HTTPException(400, f"`{text[:40]}` is no number of a release")
    return int(text)


async def _form(request: HttpRequest) -> dict[str, str]:
    """The fields of a form, read once."""
    if not hasattr(request.state, "form"):
        parts, total = list[bytes](), 0
        async for part in request.stream():
            total += len(part)
            if total > MAX_BYTES:
                raise HTTPException(413, f"a form has at most {MAX_BYTES:,} bytes")
            parts.append(part)
        try:
            fields = parse_qs(
                b"".join(parts).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise HTTPException(400, f"a form has at most {MOST_FIELDS} fields") from None
        request.state.form = {name: values[-1] for name, values in fields.items()}
    found: dict[str, str] = request.state.form
    return found


async def _static(request: HttpRequest) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404, "there is no such file")
    return FileResponse(FOLDER / "static" / name, headers=HEADERS, media_type=STATIC[name])


async def _refuse(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return page("problem.html", error.status_code, title=str(error.status_code), problem=error.detail)


async def _fail(request: HttpRequest, error: Exception) -> Response:
    return page("problem.html", 502, title="The fabric says no", problem=str(error))
