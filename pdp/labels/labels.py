"""Bell-LaPadula: who may read and append by comparing labels. No reading up, no writing down.

After Bell and LaPadula, "Secure Computer Systems: Mathematical Foundations" (1973). A label is a level and a set of
categories; one dominates another if its level is at least as high and its categories include the other's. Reading needs
a clearance that dominates the classification, appending a classification that dominates the clearance, writing (which
does both) two equal labels. Invariant: what is classified is never opened by a label that is missing or unreadable.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from msgspec import structs

from authz import AuthFabricError, Basis, Entity, Request
from authz.decision import Effect
from authz.explanation import Change, PolicyExplanation, shown
from authz.predicate import Certificate, Equal, EqualDocument, Exists, In, Literal, Path
from pdp.engine import SILENT, Verdict

_TEXT = re.compile(r"\s*([^{}\s][^{}]*?)\s*(?:\{([^{}]*)\})?\s*")
_RELATIVE = frozenset({".", ".."})


class InvalidLabel(AuthFabricError):
    """A label with a level or a category that the policy does not know, or that is no label at all."""


@dataclass(frozen=True, slots=True)
class Label:
    """A level by its rank, and categories as bits. Two labels may be incomparable."""

    rank: int
    categories: int = 0

    def dominates(self, other: Label) -> bool:
        return self.rank >= other.rank and self.categories & other.categories == other.categories


@dataclass(frozen=True, slots=True)
class Lattice:
    """The levels, lowest first, and the categories that labels are made of."""

    levels: tuple[str, ...]
    categories: tuple[str, ...] = ()

    def read(self, value: object) -> Label:
        """A label from `"secret {crypto}"` or `{"level": "secret", "categories": ["crypto"]}`. Raises InvalidLabel."""
        level, categories = _parts(value)
        if level not in self.levels:
            known = ", ".join(f"`{each}`" for each in self.levels)
            raise InvalidLabel(f"`{level}` is no level: use one of {known}")
        bits = 0
        for each in categories:
            if each not in self.categories:
                known = ", ".join(f"`{name}`" for name in self.categories)
                raise InvalidLabel(
                    f"`{each}` is no category: {f'use one of {known}' if known else 'none is defined'}"
                )
            bits |= 1 << self.categories.index(each)
        return Label(self.levels.index(level), bits)

    def show(self, label: Label) -> str:
        names = [name for bit, name in enumerate(self.categories) if label.categories >> bit & 1]
        return self.levels[label.rank] + (f" {{{', '.join(names)}}}" if names else "")


class Access(enum.Enum):
    """What an action does to its object."""

    READ = "read"
    APPEND = "append"
    WRITE = "write"


class Labelling:
    """Where the labels of subjects, or of objects, come from: a table by id, else an attribute if one is named.

    The table has the last word, since it is policy. A key that ends in `*` stands for all ids that start so; an exact
    id counts before a prefix, and a longer prefix before a shorter.
    """

    def __init__(
        self, root: str, lattice: Lattice, table: Mapping[str, Label], attribute: str | None = None
    ) -> None:
        self._path = Path(root, (attribute,)) if attribute is not None else None
        self._id = Path(root)
        self.attribute = attribute
        self._lattice = lattice
        self.table = table
        self._exact = {key: label for key, label in table.items() if not key.endswith("*")}
        self._prefixes = {key[:-1]: label for key, label in table.items() if key.endswith("*")}
        self._lengths = sorted(set(map(len, self._prefixes)), reverse=True)

    def by_id(self, name: str) -> Label | None:
        """The label the table gives; None if it gives none. Raises InvalidLabel for a name that evades prefixes."""
        label = self._exact.get(name)
        if label is not None:
            return label
        for length in self._lengths:
            label = self._prefixes.get(name[:length])
            if label is not None:
                if not _RELATIVE.isdisjoint(name.split("/")):
                    raise InvalidLabel(
                        f"`{name}` must not have a part `.` or `..`: labels go by the start of a name"
                    )
                return label
        return None

    def by_attribute(self, entity: Entity) -> Label | None:
        """The label in the attribute; None if there is none. Raises InvalidLabel."""
        value = None if self.attribute is None else entity.attributes.get(self.attribute)
        return None if value is None else self._lattice.read(value)

    def shown(self, entity: Entity) -> tuple[str, object]:
        """Where the label comes from, and what is there: a line of the table, or the attribute."""
        key = self._key(entity.id)
        if key is None and self.attribute is not None:
            return str(self._path), entity.attributes.get(self.attribute)
        label = None if key is None else self._lattice.show(self.table[key])
        return f"{self._id.root}s.table[{json.dumps(key or entity.id, ensure_ascii=False)}]", label

    def _key(self, name: str) -> str | None:
        """The key of the table that gives this name its label."""
        if name in self._exact:
            return name
        starts = (name[:length] for length in self._lengths)
        return next((f"{start}*" for start in starts if start in self._prefixes), None)

    def _in_table(self, name: str) -> bool:
        return self._key(name) is not None

    def literals(self, entity: Entity) -> Certificate | None:
        """Literals under which the same label is found, or the same fault, or none; None if there are no such."""
        if self._exact or self._prefixes:
            pinned: Certificate = (Literal(Equal(self._id, entity.id)),)
            if self._in_table(entity.id):
                return pinned
        else:
            pinned = ()
        if self._path is None or self.attribute is None:
            return pinned
        value = entity.attributes.get(self.attribute)
        if value is None:
            return (*pinned, Literal(Exists(self._path), False))
        if isinstance(value, str):
            return (*pinned, Literal(Equal(self._path, value)))
        try:
            return (*pinned, Literal(EqualDocument(self._path, json.dumps(value, allow_nan=False))))
        except (TypeError, ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class LabelPolicy:
    """What a label policy file says."""

    lattice: Lattice
    subjects: Labelling
    objects: Labelling
    actions: Mapping[str, Access]
    permits: bool
    """Whether dominance allows by itself; otherwise it only leaves room for others to allow."""


class LabelSource:
    """A label policy as a policy source. Silent about what is not classified; each denial names its rule."""

    def __init__(self, policy: LabelPolicy, name: str = "labels", sole: bool = False) -> None:
        """Only where it is the `sole` label policy in force may caches put together what its verdicts say of labels."""
        self.name = name
        self.policy = policy
        self._sole = sole

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        """Deny what dominance forbids; where it does not, allow or be silent, as the policy says."""
        verdict, asked = self._judge(request)
        if not certify:
            return verdict
        return structs.replace(verdict, certificate=self._certificate(request, asked))

    def explain(self, request: Request) -> tuple[Sequence[PolicyExplanation], int]:
        """The label rule that decides, if any, by which labels, and what would have to be different for it not to.

        Labels that only restrict, and fit, are told as a denial that does not apply.
        """
        verdict, asked = self._judge(request)
        if verdict.effect is None and asked < 3:
            return (), 0
        where = {
            "object": self.policy.objects.shown(request.object),
            "action": (str(_ACTION), request.action.id),
            "subject": self.policy.subjects.shown(request.subject),
        }
        looked_at = ("object", "subject") if asked > 2 else ("object",)
        because = tuple(f"{path} is {shown(found)}" for path, found in map(where.__getitem__, looked_at))
        if verdict.effect is not Effect.DENY:
            because = (_FITTING[self.policy.actions[request.action.id]], *because)
        if verdict.effect is None:
            return (PolicyExplanation(self.name, self.name, Effect.DENY, False, (), because=because),), 0
        (rule,) = verdict.policies
        said = _UNDOING.get(rule.removeprefix(f"{self.name}#"))
        changes = () if said is None else (Change(said[0], *where[said[1]]),)
        explained = PolicyExplanation(rule, self.name, verdict.effect, True, changes)
        return (structs.replace(explained, description=verdict.detail, because=because),), 0

    def _judge(self, request: Request) -> tuple[Verdict, int]:
        """The verdict, and how many of object, action and subject had to be looked at for it."""
        objects, subjects = self.policy.objects, self.policy.subjects
        try:
            classified = objects.by_id(request.object.id)
            classification = objects.by_attribute(request.object) if classified is None else classified
        except InvalidLabel as error:
            return self._deny("bad-label", f"the object's label cannot be used: {error}"), 1
        if classification is None:
            return (SILENT if objects.attribute is not None else _UNCLASSIFIED), 1
        access = self.policy.actions.get(request.action.id)
        if access is None:
            return self._deny("unlisted-action", f"labels say nothing of the action `{request.action.id}`"), 2
        try:
            cleared = subjects.by_id(request.subject.id)
            clearance = subjects.by_attribute(request.subject) if cleared is None else cleared
        except InvalidLabel as error:
            return self._deny("bad-label", f"the subject's label cannot be used: {error}"), 3
        if clearance is None:
            return self._deny("no-clearance", f"`{request.subject.id}` has no clearance"), 3
        # Only labels that go by id hold for the next request about the same subject and object, and only what an action
        # is called tells a cache which way they were compared.
        by_id = classified is not None and cleared is not None
        comparable = self._sole and by_id and request.action.id == access.value
        return self._compare(access, clearance, classification, Basis.LABELS if comparable else None), 3

    def _compare(
        self, access: Access, clearance: Label, classification: Label, basis: Basis | None
    ) -> Verdict:
        if access is not Access.APPEND and not clearance.dominates(classification):
            return self._deny("no-read-up", self._detail(clearance, classification), basis)
        if access is not Access.READ and not classification.dominates(clearance):
            return self._deny("no-write-down", self._detail(clearance, classification), basis)
        if self.policy.permits:
            return Verdict(Effect.ALLOW, (f"{self.name}#dominance",), basis=basis)
        return SILENT

    def _deny(self, rule: str, detail: str, basis: Basis | None = None) -> Verdict:
        return Verdict(Effect.DENY, (f"{self.name}#{rule}",), detail=detail, basis=basis)

    def _detail(self, clearance: Label, classification: Label) -> str:
        show = self.policy.lattice.show
        return f"cleared for `{show(clearance)}`, classified `{show(classification)}`"

    def _certificate(self, request: Request, asked: int) -> Certificate | None:
        found = self.policy.objects.literals(request.object)
        if asked > 1 and found is not None:
            found += (self._action(request.action.id),)
        if asked > 2 and found is not None:
            clearance = self.policy.subjects.literals(request.subject)
            return None if clearance is None else found + clearance
        return found

    def _action(self, action: str) -> Literal:
        access = self.policy.actions.get(action)
        if access is None:
            return Literal(In(_ACTION, tuple(self.policy.actions)), False)
        same = tuple(each for each, what in self.policy.actions.items() if what is access)
        return Literal(Equal(_ACTION, action) if len(same) == 1 else In(_ACTION, same))


def _parts(value: object) -> tuple[str, Iterable[str]]:
    """The level and the categories a value names, whether or not there are such."""
    if isinstance(value, str) and (text := _TEXT.fullmatch(value)):
        names = (each.strip() for each in (text[2] or "").split(","))
        return text[1], [each for each in names if each]
    if isinstance(value, dict) and value.keys() <= {"level", "categories"}:
        level, categories = value.get("level"), value.get("categories", [])
        if isinstance(level, str) and _are_texts(categories):
            return level, categories
    raise InvalidLabel(
        "a label is text, `level {category, category}`, or an object with level and categories"
    )


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


_UNCLASSIFIED = Verdict(None, unconcerned=True)
_ACTION = Path("action")
_FITTING = {
    Access.READ: "the clearance dominates the classification, as reading needs",
    Access.APPEND: "the classification dominates the clearance, as appending needs",
    Access.WRITE: "clearance and classification are equal, as writing needs",
}
_UNDOING = {
    "no-read-up": ("the clearance dominated the classification", "subject"),
    "no-clearance": ("there were a clearance that dominates the classification", "subject"),
    "no-write-down": ("the classification dominated the clearance", "object"),
    "unlisted-action": ("the label policy listed the action", "action"),
}
"""For each rule, what would have to hold for it not to deny, and where to look for it."""
