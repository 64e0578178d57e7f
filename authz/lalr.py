"""Running the tables of a grammar in one loop: what lark reads, several times as fast.

lark builds the tables; its own loop makes a tree of every text first, with a token object and the positions of each
end of each node, and then walks through it. Here the values are made as the rules are recognised, and positions only
where somebody looks. Invariant: what is read is what lark's tree gives after its transformer; whatever else there is,
an error above all, raises Unread, and is left for lark to tell.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lark import Lark, Token, Transformer, Tree
from lark.grammar import Rule
from lark.lexer import ContextualLexer, UnlessCallback
from lark.parsers.lalr_analysis import Shift
from lark.tree import Meta
from lark.visitors import _vargs_inline, _vargs_meta_inline

_END = "$END"
_DEEPEST = 300
"""What is nested deeper than this, lark says that it cannot read, sooner or later."""

Build: TypeAlias = Callable[..., object]
_Choose: TypeAlias = Callable[[list[Any]], list[Any]]
_Match: TypeAlias = Callable[[str, int], re.Match[str] | None]
_Row: TypeAlias = Mapping[str, tuple[object, Any]]
_Table: TypeAlias = Mapping[int, _Row]


class Unread(Exception):
    """A text that is not read here."""


class Lines:
    """Where the lines of a text begin."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def place(self, position: int) -> tuple[int, int]:
        """The line and column of a position, counted from one."""
        if not self._starts:
            self._starts = [0, *(found.end() for found in re.finditer("\n", self._text))]
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1] + 1

    def meta(self, position: int) -> Meta:
        """A place as lark tells it."""
        meta = Meta()  # type: ignore[no-untyped-call]
        meta.line, meta.column = self.place(position)
        return meta


class PlacedToken(Token):
    """A token that finds out where it stands when it is asked."""

    __slots__ = ("lines",)
    lines: Lines

    @property
    def line(self) -> int:  # type: ignore[override]
        return self.lines.place(self.start_pos or 0)[0]

    @property
    def column(self) -> int:  # type: ignore[override]
        return self.lines.place(self.start_pos or 0)[1]

    @property
    def end_line(self) -> int:  # type: ignore[override]
        return self.lines.place(self.end_pos)[0]

    @property
    def end_column(self) -> int:  # type: ignore[override]
        return self.lines.place(self.end_pos)[1]

    @property
    def end_pos(self) -> int:  # type: ignore[override]
        return (self.start_pos or 0) + len(self)


@dataclass(frozen=True, slots=True)
class _State:
    """What may come in one state of the parser, and where it leads."""

    match: _Match
    """Finds the next terminal, by its name, behind what is ignored."""
    words: Mapping[str, Callable[[str], str | None]]
    """By terminal, what tells those of its texts that are terminals of their own: keywords among names."""
    moves: dict[str, _Shift | _Reduction] = field(default_factory=dict)
    goto: dict[str, _State] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Shift:
    """To take a terminal and go on."""

    to: _State
    kept: bool
    """Whether the token is made: nobody sees those that stand for themselves."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """To make one value of the last so many."""

    size: int
    origin: str
    build: Build
    placed: bool
    """Whether whoever makes the value wants to know where it stands."""


class Loop:
    """The loop for one grammar. Raises NotImplementedError for what it cannot do as lark does it."""

    def __init__(self, lark: Lark, transformer: Transformer[Token, Any], start: str) -> None:
        frontend: Any = lark.parser
        table, lexer = frontend.parser._parse_table, frontend.lexer
        if not isinstance(lexer, ContextualLexer):
            raise NotImplementedError("only a contextual lexer is known here")
        self._rest = re.compile(_ignored(lexer.root_lexer)).fullmatch
        states = _states(lexer, table.states, transformer)
        self._first, self._final = states[table.start_states[start]], states[table.end_states[start]]

    def parse(self, text: str) -> object:
        """The value of a text. Raises Unread."""
        lines, final = Lines(text), self._final
        states, values, starts = [self._first], list[Any](), list[int]()
        state, position = self._first, 0
        while len(states) <= _DEEPEST:
            if (found := state.match(text, position)) is not None:
                kind = found.lastgroup or _END
                start, position = found.span(kind)
                word = text[start:position]
                if kind in state.words:
                    kind = state.words[kind](word) or kind
            else:
                kind, start, word = self._end(text, position), len(text), ""
            while isinstance(move := state.moves.get(kind), _Reduction):
                size = move.size
                if size == 1:
                    states.pop()
                    children = [values.pop()]
                elif size:
                    children = values[-size:]
                    del states[-size:], values[-size:], starts[1 - size :]
                else:
                    children = []
                    starts.append(start)
                made = move.build(children, lines.meta(starts[-1])) if move.placed else move.build(children)
                state = states[-1].goto[move.origin]
                if state is final and kind == _END:
                    return made
                states.append(state)
                values.append(made)
            if move is None:
                break
            state = move.to
            states.append(state)
            values.append(_token(kind, word, start, lines) if move.kept else None)
            starts.append(start)
        raise Unread

    def _end(self, text: str, position: int) -> str:
        if self._rest(text, position) is None:
            raise Unread
        return _END


def _token(kind: str, text: str, start: int, lines: Lines) -> PlacedToken:
    token = str.__new__(PlacedToken, text)
    token.type, token.value, token.start_pos, token.lines = kind, text, start, lines
    return token


def _states(lexer: ContextualLexer, table: _Table, transformer: Transformer[Token, Any]) -> dict[int, _State]:
    rules = {rule for row in table.values() for action, rule in row.values() if action is not Shift}
    reductions = {rule: _reduction(rule, transformer) for rule in rules}
    seen = {symbol.name for rule in rules for _, symbol in _kept(rule)}
    scans = {id(each): _scan(each) for each in lexer.lexers.values()}  # many states have one in common
    states = {number: _State(*scans[id(lexer.lexers[number])]) for number in table}
    for number, row in table.items():
        for name, (action, argument) in row.items():
            kind = str(name)  # lark has tokens for names, which are slow to compare
            if action is Shift:
                states[number].goto[kind] = states[argument]
                states[number].moves[kind] = _Shift(states[argument], name in seen)
            else:
                states[number].moves[kind] = reductions[argument]
    return states


def _scan(lexer: Any) -> tuple[_Match, Mapping[str, Callable[[str], str | None]]]:
    scanner = lexer.scanner
    if len(scanner._mres) != 1 or lexer.g_regex_flags:
        raise NotImplementedError("terminals are looked for by one expression without flags")
    words = {str(kind): _words(callback) for kind, callback in lexer.callback.items()}
    match = re.compile(f"{_ignored(lexer)}(?:{scanner._mres[0].pattern})").match
    return match, words


def _ignored(lexer: Any) -> str:
    """What is passed over. It gives nothing back, lest the end of a comment be read as something else."""
    each = (f"(?:{lexer.terminals_by_name[kind].pattern.to_regexp()})" for kind in sorted(lexer.ignore_types))
    return f"(?:{'|'.join(each)})*+"


def _words(callback: object) -> Callable[[str], str | None]:
    if not isinstance(callback, UnlessCallback):
        raise NotImplementedError("tokens are made by nobody else here")
    terminals = callback.scanner.terminals
    if any(each.pattern.flags for each in terminals):
        return callback.scanner.fullmatch
    return {each.pattern.value: str(each.name) for each in terminals}.get


def _reduction(rule: Rule, transformer: Transformer[Token, Any]) -> _Reduction:
    name = rule.alias or rule.options.template_source or rule.origin.name
    made, placed = _maker(name, transformer)
    choose = _chooser(rule)
    build = made if choose is None else _chosen(choose, made)
    if rule.options.expand1 and not rule.alias:
        build = _unless_single(choose or list, made)
    return _Reduction(len(rule.expansion), str(rule.origin.name), build, placed)


def _chosen(choose: _Choose, made: Build) -> Build:
    return lambda children, *meta: made(choose(children), *meta)


def _unless_single(choose: _Choose, made: Build) -> Build:
    def build(children: list[Any], *meta: Meta) -> object:
        chosen = choose(children)
        return chosen[0] if len(chosen) == 1 else made(chosen, *meta)

    return build


def _maker(name: str, transformer: Transformer[Token, Any]) -> tuple[Build, bool]:
    """What makes the value of a rule from its children, and whether it wants to know where they stand."""
    if name.startswith("_"):
        return (lambda children: children), False  # its parts are taken in where it stands
    method = getattr(transformer, name, None)
    if method is None:
        return (lambda children: Tree(name, children)), False
    wrapper = getattr(method, "visit_wrapper", None)
    if wrapper is None:
        return method, False
    call = method.base_func  # without lark's wrapper around it
    if wrapper is _vargs_inline:
        return (lambda children: call(*children)), False
    if wrapper is _vargs_meta_inline:
        return (lambda children, meta: call(meta, *children)), True
    raise NotImplementedError(f"`{name}` is called in a way that is not known here")


def _kept(rule: Rule) -> list[tuple[int, Any]]:
    return [
        (n, symbol)
        for n, symbol in enumerate(list[Any](rule.expansion))
        if not symbol.is_term or rule.options.keep_all_tokens or not symbol.filter_out
    ]


def _chooser(rule: Rule) -> _Choose | None:
    """What takes the children that matter, with None for each optional that is not there; None if all do."""
    absent, before = _absent(rule), 0
    parts = list[tuple[int, bool, list[None]]]()
    for n, symbol in _kept(rule):
        spread = not symbol.is_term and symbol.name.startswith("_")
        parts.append((n, spread, [None] * sum(absent[before : n + 1])))
        before = n + 1
    after: list[None] = [None] * sum(absent[before:])
    if not any(absent) and not any(spread for _, spread, _ in parts):
        places = [n for n, _, _ in parts]
        return None if len(places) == len(rule.expansion) else lambda children: [children[n] for n in places]

    def choose(children: list[Any]) -> list[Any]:
        chosen: list[Any] = []
        for n, spread, missing in parts:
            chosen += missing
            if not spread:
                chosen.append(children[n])
            elif chosen:
                chosen += children[n]
            else:
                chosen = children[
                    n
                ]  # the list so far, which nobody else has: it is not copied for each element
        chosen += after
        return chosen

    return choose


def _absent(rule: Rule) -> list[int]:
    """How many optionals are not there before each part of the rule, and after the last."""
    empty = rule.options.empty_indices
    if not empty:
        return [0] * (len(rule.expansion) + 1)
    return [len(each) for each in "".join(str(int(each)) for each in empty).split("0")]
