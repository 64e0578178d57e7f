"""What roles may do, filed for deciding: authorisation rules compiled, and found by action and object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from authz import Basis, Request
from authz.decision import Effect
from authz.predicate import And, Equal, In, Literal, Path, Regex
from authz.predicate.reasoning import Witness
from pdp.engine import Verdict
from pdp.oasis.actions import ACTION, about_one, is_meant, is_wild, named
from pdp.oasis.constraint import Case, Test, bind_literals, compile_constraint, constraint_witness, variables
from pdp.oasis.pattern import Holes, PatternIndex
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.syntax import Authorisation
from pdp.oasis.terms import Atom, Bindings, Instance, Variable, match

OBJECT = Path("object")


class Grant:
    """One authorisation rule, compiled."""

    __slots__ = ("_names", "_test", "_used", "_witness", "open", "rule", "verdict", "verdict_by_role")

    def __init__(self, rule: Authorisation) -> None:
        condition = And(tuple(each.predicate for each in rule.constraints))
        self.rule = rule
        self.verdict = Verdict(Effect.ALLOW, (rule.name,))
        self.verdict_by_role = Verdict(Effect.ALLOW, (rule.name,), basis=Basis.ROLES)
        self.open = not rule.constraints and _indifferent(rule)
        """Whether every instance of the role will do, whatever its parameters and the request."""
        self._names = rule.pattern.names
        used = rule.role.variables.union(*(variables(each.predicate) for each in rule.constraints))
        self._used = tuple(name for name in self._names if name in used)
        """The holes of the pattern that stand elsewhere in the rule, too."""
        self._test: Test | None = compile_constraint(condition) if rule.constraints else None
        self._witness: Witness[Case] | None = constraint_witness(condition) if rule.constraints else None

    def bind(self, role: Instance, holes: Holes) -> Bindings | None:
        """What the rule's variables are for a role and an object; None if the two do not fit together.

        A parameter stands in an object's name as its text: a hole filled with `7` fits 7 and "7".
        """
        bindings = match(self.rule.role, role, {})
        if bindings is None:
            return None
        for name, text in zip(self._names, holes, strict=True):
            if str(bindings.setdefault(name, text)) != text:
                return None
        return bindings

    def holds(self, request: Request, bindings: Bindings) -> bool:
        return self._test is None or self._test(Case(request, bindings))

    def literals(self, request: Request, bindings: Bindings) -> Iterator[Literal]:
        """Why the constraints hold, or do not, the variables being what they are."""
        if self._witness is not None:
            yield from bind_literals(self._witness(Case(request, bindings))[1], bindings)

    def permission(self, request: Request, bindings: Bindings) -> Iterator[Literal]:
        """Why the rule is about this action and object, the variables being what they are."""
        actions, pattern = self.rule.actions, self.rule.pattern
        if (plain := named(actions)) and request.action.id in plain:
            yield Literal(In(ACTION, plain) if len(plain) > 1 else about_one(plain[0]))
        elif actions:
            yield Literal(about_one(next(each for each in actions if is_meant(each, request.action.id))))
        filled = {name: str(bindings[name]) for name in self._used}
        if pattern.exact(filled):
            yield Literal(Equal(OBJECT, request.object.id))
        elif pattern.segments:
            yield Literal(Regex(OBJECT, pattern.regex(filled)))


class Entry:
    """All grants of one action on one object pattern, by who has them."""

    __slots__ = ("by_name", "by_text", "constrained", "grants")

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.by_text: dict[str, Grant] = {}
        """Grants that a role without parameters has just by its text, as a subject's roles are sent."""
        self.by_name: dict[str, list[Grant]] = defaultdict(list)
        """The others, by the role's full name."""
        self.constrained = False
        """Whether more than single roles decides: some rule has a constraint."""

    def add(self, grant: Grant, seniors: Iterable[str], parametrised: bool) -> None:
        """File a grant. `seniors` are the plain roles that imply its own; some with parameters may do so too."""
        name = grant.rule.role.name
        self.grants.append(grant)
        self.constrained = self.constrained or bool(grant.rule.constraints)
        if grant.open and not grant.rule.role.args:
            for text in (name, *seniors):
                self.by_text.setdefault(text, grant)
        if not grant.open or grant.rule.role.args or parametrised:
            self.by_name[name].append(grant)


class _Table:
    """The entries for one action."""

    def __init__(self) -> None:
        self.exact: dict[str, Entry] = {}
        self.patterns: PatternIndex[Entry] | None = None
        self._entries: dict[str, Entry] = {}

    @property
    def empty(self) -> bool:
        return not self._entries

    def entry(self, grant: Grant) -> Entry:
        pattern = grant.rule.pattern
        entry = self._entries.get(pattern.text)
        if entry is None:
            entry = self._entries[pattern.text] = Entry()
            if pattern.exact({}):
                self.exact[pattern.text] = entry
            else:
                self.patterns = self.patterns or PatternIndex()
                self.patterns.add(pattern, entry)
        return entry


class Grants:
    """Every authorisation rule of a rulebook."""

    def __init__(self, rulebook: Rulebook) -> None:
        seniors = _Seniors(rulebook)
        grants = [Grant(rule) for rule in rulebook.authorisations]
        filed = [(each, *seniors.of(each.rule.role.name)) for each in grants]
        actions = {action for grant in grants for action in grant.rule.actions}
        self._wild = tuple(sorted(filter(is_wild, actions)))
        self._tables = {action: _Table() for action in actions if not is_wild(action)}
        self._others: dict[tuple[str, ...], _Table] = {}
        """The tables for actions that no rule names, by the patterns that stand for them."""
        self._general = [each for each in filed if not each[0].rule.actions or self._is_wild(each[0])]
        meant = {
            pattern: [each for each in self._tables if is_meant(pattern, each)] for pattern in self._wild
        }
        for grant, plain, parametrised in filed:
            of_grant = grant.rule.actions or self._tables
            for action in {name for each in of_grant for name in meant.get(each, (each,))}:
                self._tables[action].entry(grant).add(grant, plain, parametrised)

    def concern(self, action: str) -> bool:
        """Whether any rule is about the action, on whatever object."""
        return not self._table(action).empty

    def find(self, action: str, object_id: str) -> list[tuple[Entry, Holes]]:
        """The entries for a permission, with what fills the holes of their patterns."""
        table = self._table(action)
        entry = table.exact.get(object_id)
        found: list[tuple[Entry, Holes]] = [] if entry is None else [(entry, ())]
        if table.patterns is not None:
            found.extend(table.patterns.find(object_id))
        return found

    def _table(self, action: str) -> _Table:
        table = self._tables.get(action)
        if table is not None:
            return table
        meant = self._patterns(action) if self._wild else ()
        if meant not in self._others:
            table = _Table()
            for grant, plain, parametrised in self._general:
                if not grant.rule.actions or not set(meant).isdisjoint(grant.rule.actions):
                    table.entry(grant).add(grant, plain, parametrised)
            self._others[meant] = table
        return self._others[meant]

    def _patterns(self, action: str) -> tuple[str, ...]:
        return tuple(each for each in self._wild if is_meant(each, action))

    @staticmethod
    def _is_wild(grant: Grant) -> bool:
        return any(map(is_wild, grant.rule.actions))


class _Seniors:
    """Which roles imply a role without parameters, just by their names."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._above: dict[str, list[Atom]] = defaultdict(list)
        for edge in (edge for edges in rulebook.seniorities.values() for edge in edges):
            self._above[edge.junior.name].append(edge.senior)

    def of(self, role: str) -> tuple[tuple[str, ...], bool]:
        """The plain roles above one, through plain roles only, and whether there are others beside them."""
        seen: dict[str, None] = {}
        parametrised = False
        pending = [role]
        while pending:
            for senior in self._above.get(pending.pop(), ()):
                if senior.args:
                    parametrised = True
                elif senior.name not in seen:
                    seen[senior.name] = None
                    pending.append(senior.name)
        return tuple(seen), parametrised


def _indifferent(rule: Authorisation) -> bool:
    """Whether the parameters of the role do not matter: all are variables that occur nowhere else."""
    names = [term.name for term in rule.role.args if isinstance(term, Variable) and term.name != "_"]
    constants = any(not isinstance(term, Variable) for term in rule.role.args)
    return not constants and len(set(names)) == len(names) and not set(names) & set(rule.pattern.names)
