"""Every route called as every actor: who gets what, and which routes asked nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

WEBSOCKET = "WEBSOCKET"
"""What stands for the method of a WebSocket."""
_BY_WHOM = (401, 403)
"""The answers to somebody who may not call, with or without a question."""


class Route(NamedTuple):
    """A route as a client sees it."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Cell(NamedTuple):
    """What one actor got from one route, and whether anybody was asked for permission."""

    status: int
    asked: bool


@dataclass(frozen=True, slots=True)
class Matrix:
    """Actors by routes. `str` of it is a table."""

    cells: dict[tuple[str, Route], Cell]

    @property
    def routes(self) -> list[Route]:
        return list(dict.fromkeys(route for _, route in self.cells))

    @property
    def actors(self) -> list[str]:
        return list(dict.fromkeys(actor for actor, _ in self.cells))

    @property
    def unprotected(self) -> list[Route]:
        """The routes that answered somebody without a question having been asked."""
        return list(
            dict.fromkeys(
                route for (_, route), cell in self.cells.items() if not cell.asked and cell.status < 400
            )
        )

    @property
    def untold(self) -> list[Route]:
        """The routes that ended otherwise before anybody was asked, and not because of who called: 404, 405, 422.

        Whether they are protected cannot be told of them.
        """
        return [
            route
            for route in self.routes
            if not any(cell.asked or cell.status < 400 for cell in self._of(route))
            and any(cell.status not in _BY_WHOM for cell in self._of(route))
        ]

    def allowed(self, actor: str) -> list[Route]:
        """The routes that served this actor."""
        return [route for (who, route), cell in self.cells.items() if who == actor and cell.status < 400]

    def require_protected(self, *, public: Collection[str] = ()) -> None:
        """Raise AssertionError naming each route that nobody protected, but for those that are meant to be public.

        One of which that cannot be told is named too: call it with what it takes.
        """
        __tracebackhide__ = True  # pytest shows the test
        forgotten = [str(each) for each in self.unprotected if str(each) not in public]
        unknown = sorted(set(public) - set(map(str, self.routes)))
        problems = [f"nobody protects: {', '.join(forgotten)}"] if forgotten else []
        untold = [f"{each} ({self._of(each)[0].status})" for each in self.untold if str(each) not in public]
        if untold:
            problems.append(
                f"ended before anybody was asked, so call with what they take: {', '.join(untold)}"
            )
        problems += [f"there is no route: {', '.join(unknown)}"] if unknown else []
        if problems:
            raise AssertionError(f"{'; '.join(problems)}\n{self}")

    def _of(self, route: Route) -> list[Cell]:
        return [cell for (_, each), cell in self.cells.items() if each == route]

    def __str__(self) -> str:
        wide = max((len(str(each)) for each in self.routes), default=0)
        lines = [" " * wide + "".join(f"  {actor:>8}" for actor in self.actors)]
        for route in self.routes:
            row = [self.cells[actor, route] for actor in self.actors]
            marks = "".join(f"  {_shown(each):>8}" for each in row)
            lines.append(f"{route!s:<{wide}}{marks}")
        return "\n".join(lines)


def _shown(cell: Cell) -> str:
    return f"{cell.status}" if cell.asked or cell.status >= 400 else f"{cell.status} open"


def run_matrix(
    count: Callable[[], int],
    call: Callable[[str, Route], int],
    actors: Iterable[str],
    routes: Iterable[Route],
) -> Matrix:
    """Call all; `count` says how many questions were asked so far."""
    cells: dict[tuple[str, Route], Cell] = {}
    several = list(actors)
    for route in routes:
        for actor in several:
            before = count()
            status = call(actor, route)
            cells[actor, route] = Cell(status, count() > before)
    return Matrix(cells)


def routes_of(app: Any, **parameters: object) -> list[Route]:
    """The routes of a FastAPI, Starlette or Flask application, or of a list of Django's `urlpatterns`.

    Their parameters are filled in, and routes that they include are there too; HEAD and OPTIONS are left out, and a
    WebSocket has WEBSOCKET for its method. Raises KeyError for a parameter that is not given, ValueError for a path
    that is a regular expression.
    """
    if hasattr(app, "url_map"):
        found = _flask(app)
    else:
        found = _django(app, "/") if isinstance(app, list) else _starlette(app.routes, "")
    known = {name: str(value) for name, value in parameters.items()}
    return [
        Route(method, path.replace(":path}", "}").format(**known))
        for method, path in found
        if method not in ("HEAD", "OPTIONS")
    ]


def _starlette(routes: Iterable[Any], prefix: str) -> Iterator[tuple[str, str]]:
    from starlette.routing import Route, WebSocketRoute

    for each, kind in _included(routes):
        path = prefix + (getattr(each, "path", None) or "")
        if issubclass(kind, WebSocketRoute):
            yield WEBSOCKET, path
        elif issubclass(kind, Route):
            methods = each.methods or {name.upper() for name in _HTTP if hasattr(each.endpoint, name)}
            yield from ((method, path) for method in sorted(methods))
        else:
            yield from _starlette(getattr(each, "routes", None) or (), path)


def _included(routes: Iterable[Any]) -> Iterator[tuple[Any, type]]:
    """Each route and its kind, with those of included routers: FastAPI has a router in their place."""
    try:
        from fastapi.routing import iter_route_contexts
    except ImportError:  # Starlette alone, or a FastAPI that has each route in its place
        return ((each, type(each)) for each in routes)
    return ((each, type(each.original_route)) for each in iter_route_contexts(list(routes)))


_HTTP = ("get", "post", "put", "patch", "delete")
"""What an endpoint of Starlette that is a class answers by."""


def _flask(app: Any) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        if rule.endpoint != "static":
            yield from ((method, _in_braces(rule.rule)) for method in sorted(rule.methods or ()))


def _django(patterns: Iterable[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for each in patterns:
        path = prefix + str(each.pattern)
        if not hasattr(each.pattern, "_route"):
            raise ValueError(f"`{path}` is a regular expression: call it by a Route of your own")
        if hasattr(each, "url_patterns"):
            yield from _django(each.url_patterns, path)
        else:
            yield from ((method.upper(), _in_braces(path)) for method in _methods(each.callback))


def _methods(view: Any) -> list[str]:
    """What a view of Django or of the REST framework answers; a function takes any method, and is called by one."""
    if actions := getattr(view, "actions", None):
        return list(actions)
    kind = getattr(view, "view_class", getattr(view, "cls", None))
    return ["get"] if kind is None else [name for name in kind.http_method_names if hasattr(kind, name)]


_PARAMETER = re.compile(r"<(?:[^<>:]+:)?([^<>:]+)>")


def _in_braces(path: str) -> str:
    """`/notes/<int:id>`, of Flask and Django, as `/notes/{id}`."""
    return _PARAMETER.sub(r"{\1}", path)
