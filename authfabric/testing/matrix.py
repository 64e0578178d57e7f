"""Every route called as every actor: who gets what, and which routes asked nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple


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

    def allowed(self, actor: str) -> list[Route]:
        """The routes that served this actor."""
        return [route for (who, route), cell in self.cells.items() if who == actor and cell.status < 400]

    def require_protected(self, *, public: Collection[str] = ()) -> None:
        """Raise AssertionError naming each route that nobody protected, but for those that are meant to be public."""
        forgotten = [str(each) for each in self.unprotected if str(each) not in public]
        unknown = sorted(set(public) - set(map(str, self.routes)))
        problems = [f"nobody protects: {', '.join(forgotten)}"] if forgotten else []
        problems += [f"there is no route: {', '.join(unknown)}"] if unknown else []
        if problems:
            raise AssertionError(f"{'; '.join(problems)}\n{self}")

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
    """The routes of a FastAPI, Starlette or Flask application, with their parameters filled in; HEAD and OPTIONS are
    left out. Raises KeyError for a parameter that is not given."""
    if hasattr(app, "url_map"):
        found = [
            (method, "/".join(_flask(part) for part in rule.rule.split("/")))
            for rule in app.url_map.iter_rules()
            if rule.endpoint != "static"
            for method in sorted(rule.methods or ())
        ]
    else:
        found = [
            (method, each.path)
            for each in app.routes
            for method in sorted(getattr(each, "methods", None) or ())
        ]
    known = {name: str(value) for name, value in parameters.items()}
    return [
        Route(method, path.replace(":path}", "}").format(**known))
        for method, path in found
        if method not in ("HEAD", "OPTIONS")
    ]


def _flask(part: str) -> str:
    return "{" + part[1:-1].rpartition(":")[2] + "}" if part.startswith("<") else part
