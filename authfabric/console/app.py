"""The console as an ASGI application: pages, a stream of what changes, and what viewers may do.

Invariants: nothing but the sign-in page and the files it needs is shown to who has not signed in; nothing is changed
but by a form that carries the viewer's own word; each request is decided anew, by the fabric, and a stream that goes
on is decided again and again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from authfabric.console.event_view import TypeView
from authfabric.console.fabric_watch_service import Live
from authfabric.console.granting import Granting
from authfabric.console.live_stream import live_news
from authfabric.console.numbers import Numbers, numbers
from authfabric.console.oidc import OidcSignIn, SignInRefused
from authfabric.console.pages import FOLDER, HEADERS, page
from authfabric.console.questions import Asked, Questions
from authfabric.console.releasing import MOST_DIGITS, Releasing
from authfabric.console.viewers import Deed, Viewer, Viewers
from authz import AuthFabricError
from bus.audit import DecisionFilter

COOKIE = "authfabric-console"
MARK = "authfabric-console-sign-in"
"""The cookie of a browser that was sent to a provider."""
BACK = "/sign-in/return"
"""Where a provider sends browsers back to."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a form: policies may be edited in one."""
MAX_SIGN_IN_BYTES = 4096
"""Maximum bytes of the form by which strangers sign in."""
MOST_FIELDS = 20
"""Maximum fields of a form."""
FIRST_LINES = 100
"""Decisions that a page begins with."""
STATIC = {"console.css": "text/css", "console.js": "text/javascript"}

_log = logging.getLogger("authfabric.console")

Page = Callable[[HttpRequest, Viewer], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the console shows, and by what it changes anything."""

    live: Live
    viewers: Viewers
    releasing: Releasing
    questions: Questions
    granting: Granting
    types: Callable[[], Awaitable[list[TypeView]]]
    oidc: OidcSignIn | None = None
    """How others than holders of tokens sign in."""


def console(parts: Parts, hosts: list[str]) -> Starlette:
    """The application. `hosts` are the names under which it may be reached."""
    handlers = _Handlers(parts)
    app = Starlette(
        routes=handlers.routes(),
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        exception_handlers={HTTPException: _refuse, AuthFabricError: _fail},
    )
    app.router.redirect_slashes = False
    return app


class _Handlers:
    def __init__(self, parts: Parts) -> None:
        self._live = parts.live
        self._viewers = parts.viewers
        self._releasing = parts.releasing
        self._questions = parts.questions
        self._granting = parts.granting
        self._types = parts.types
        self._oidc = parts.oidc

    def routes(self) -> list[Route]:
        get, both = ["GET"], ["GET", "POST"]
        return [
            Route("/sign-in", self._sign_in, methods=both),
            Route("/sign-in/provider", self._sign_in_elsewhere, methods=get),
            Route(BACK, self._come_back, methods=get),
            Route("/static/{name}", _static, methods=get),
            Route("/sign-out", self._guard(self._sign_out, Deed.VIEW), methods=["POST"]),
            Route("/", self._guard(self._overview, Deed.VIEW), methods=get),
            Route("/live", self._guard(self._stream, Deed.VIEW), methods=get),
            Route("/decisions", self._guard(self._decisions, Deed.VIEW), methods=get),
            Route("/why", self._guard(self._why, Deed.ASK), methods=get),
            Route("/search", self._guard(self._search, Deed.ASK), methods=get),
            Route("/policies", self._guard(self._policies, Deed.VIEW), methods=get),
            Route("/releases", self._guard(self._releases, Deed.VIEW), methods=get),
            Route("/diff", self._guard(self._diff, Deed.VIEW), methods=get),
            Route("/edit", self._guard(self._edit, Deed.RELEASE), methods=both),
            Route("/release", self._guard(self._release, Deed.RELEASE), methods=both),
            Route("/events", self._guard(self._events, Deed.VIEW), methods=get),
            Route("/trust", self._guard(self._trust, Deed.VIEW), methods=get),
            Route("/revoke", self._guard(self._revoke, Deed.REVOKE), methods=both),
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
            return self._sign_in_page()
        form = await _form(request, MAX_SIGN_IN_BYTES)
        session = await self._viewers.sign_in(form.get("token", "").strip())
        if session is None:
            return self._sign_in_page("This token lets nobody in, or whose it is may not look.")
        response = RedirectResponse("/", 303, HEADERS)
        _set_cookie(response, request, COOKIE, session)
        return response

    def _sign_in_page(self, problem: str = "") -> Response:
        provider = self._oidc.provider.issuer if self._oidc is not None else ""
        return page("sign_in.html", 401 if problem else 200, problem=problem, provider=provider)

    async def _sign_in_elsewhere(self, request: HttpRequest) -> Response:
        """Send the browser to the provider."""
        if self._oidc is None:
            raise HTTPException(404, "this console knows no provider: tokens sign in")
        base = self._oidc.provider.address or str(request.base_url)
        address, mark = await self._oidc.begin(base.rstrip("/") + BACK)
        response = RedirectResponse(address, 303, HEADERS)
        _set_cookie(response, request, MARK, mark, samesite="lax")  # the provider sends the browser back
        return response

    async def _come_back(self, request: HttpRequest) -> Response:
        if self._oidc is None:
            raise HTTPException(404, "this console knows no provider: tokens sign in")
        try:
            name, attributes = await self._oidc.finish(request.cookies.get(MARK, ""), request.query_params)
        except SignInRefused as error:
            return self._sign_in_page(f"{error}.")
        session = await self._viewers.sign_in_as(name, attributes)
        if session is None:
            return self._sign_in_page(f"{name} may not look here, by the policies in force.")
        response = page("signed_in.html")  # a redirect would not carry a cookie that other sites cannot send
        _set_cookie(response, request, COOKIE, session)
        response.delete_cookie(MARK, path="/")
        return response

    async def _sign_out(self, request: HttpRequest, viewer: Viewer) -> Response:
        self._viewers.sign_out(request.cookies.get(COOKIE, ""))
        response = RedirectResponse("/sign-in", 303, HEADERS)
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _overview(self, request: HttpRequest, viewer: Viewer) -> Response:
        return page("overview.html", **await self._common(viewer, "/"), numbers=self._numbers())

    def _numbers(self) -> Numbers:
        return numbers(self._live.log, time(), self._live.unaudited)

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

    async def _search(self, request: HttpRequest, viewer: Viewer) -> Response:
        asked, cursor = Asked.of(request.query_params), request.query_params.get("cursor", "")
        found = await self._questions.search(asked, cursor)
        return page("search.html", **await self._common(viewer, "/search"), asked=asked, found=found)

    async def _policies(self, request: HttpRequest, viewer: Viewer) -> Response:
        shelf = await self._releasing.shelf()
        name = request.query_params.get("file", "")
        common = await self._common(viewer, "/policies")
        used = self._live.log.policies
        return page("policies.html", **common, shelf=shelf, file=shelf.find(name), used=used)

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
        shown = list(self._live.log.shown.items())[::-1]
        return page("events.html", **common, types=await self._types(), shown=shown)

    async def _trust(self, request: HttpRequest, viewer: Viewer) -> Response:
        trust = await self._granting.trust() if self._granting.known else None
        common = await self._common(viewer, "/trust")
        return page("trust.html", **common, trust=trust, able=self._granting.able)

    async def _revoke(self, request: HttpRequest, viewer: Viewer) -> Response:
        """Take back what a member holds: shown, then confirmed by typing."""
        common = await self._common(viewer, "/trust")
        fields = await _form(request) if request.method == "POST" else dict(request.query_params)
        name = fields.get("name", "")
        link, phrase = await self._granting.member(name), f"revoke {name}"
        problem = ""
        if request.method == "POST":
            if fields.get("confirm", "").strip() == phrase:
                told = await self._granting.revoke(name)
                _log.warning("%s has revoked `%s` in %s", viewer.name, name, ", ".join(told))
                return RedirectResponse("/trust", 303, HEADERS)
            problem = f"not done: type exactly `{phrase}` to confirm"
        shown = {"link": link, "phrase": phrase, "problem": problem, "able": self._granting.able}
        return page("revoke.html", 409 if problem else 200, **common, **shown)

    async def _stream(self, request: HttpRequest, viewer: Viewer) -> Response:
        session = request.cookies.get(COOKIE, "")
        news = live_news(
            self._live,
            self._viewers,
            viewer,
            session,
            _filter(request),
            request.is_disconnected,
            self._numbers,
        )
        return StreamingResponse(news, 200, HEADERS, "text/event-stream")


def _set_cookie(
    response: Response,
    request: HttpRequest,
    name: str,
    value: str,
    samesite: Literal["strict", "lax"] = "strict",
) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, httponly=True, samesite=samesite, secure=secure, path="/")


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


async def _form(request: HttpRequest, most: int = MAX_BYTES) -> dict[str, str]:
    """The fields of a form, read once."""
    if not hasattr(request.state, "form"):
        parts, total = list[bytes](), 0
        async for part in request.stream():
            total += len(part)
            if total > most:
                raise HTTPException(413, f"a form has at most {most:,} bytes")
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
