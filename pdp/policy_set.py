"""The policies of a bundle, read: everything that decides, and where each of it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from authz import AuthFabricError
from authz.change import ROLES
from authz.errors import InvalidSyntax
from authz.predicate import TRUE, In, Path, Predicate, paths
from pdp.abac.document import Document, Place
from pdp.abac.path import ROOTS, read_path
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reader import read_policies
from pdp.abac.source import AbacSource
from pdp.bundle import Bundle, File, FileKind
from pdp.engine import Engine
from pdp.entities import Entities
from pdp.label_reader import read_label_policy
from pdp.labels import LabelPolicy, LabelSource
from pdp.manifest import Manifest
from pdp.oasis import Domains, RoleSource, Rulebook, RuleSet
from pdp.oasis import parse as parse_rules
from pdp.oasis.difference import reach
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.seniors import Seniors
from pdp.role_comparison import by_role_domain
from pdp.rules import Interaction, read_rule_file
from pdp.source import Effect, PolicySource

T = TypeVar("T")


class InvalidPolicies(AuthFabricError):
    """Policies that cannot be read; `problems` has the first of each file, with its line and column."""

    def __init__(self, problems: tuple[InvalidSyntax, ...]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class PolicySet:
    """What a bundle says."""

    manifest: Manifest = field(default_factory=Manifest)
    policies: tuple[Policy, ...] = ()
    roles: Domains | None = None
    rule_sets: tuple[RuleSet, ...] = ()
    """The role rules, file by file."""
    labels: Mapping[str, LabelPolicy] = field(default_factory=dict)
    """Label policies by the name their rules have in decisions."""
    entities: Entities = field(default_factory=Entities)
    files: Mapping[str, File] = field(default_factory=dict)
    """The file that each attribute policy is in, by the policy's id."""
    interaction: Interaction = field(default_factory=Interaction)
    """Who receives which events, and in which form."""

    @classmethod
    def read(cls, bundle: Bundle) -> PolicySet:
        """Raises InvalidPolicies with all that is wrong."""
        return _Reader(bundle).read()

    @property
    def provided(self) -> frozenset[Path]:
        """The attributes that count only if a PDP has looked them up.

        Where rules say who may activate a role, sessions say who has; so the roles that an asker lists do not count.
        """
        return self.manifest.provided_paths | ({ROLES} if self.governed else set())

    @property
    def governed(self) -> bool:
        """Whether sessions say who has which role, for as long as they are told."""
        return self.roles is not None and self.roles.govern

    @property
    def every_policy(self) -> tuple[Policy, ...]:
        """The attribute policies, and those that rules are; each has an id of its own."""
        return (*self.policies, *self.interaction.policies)

    @property
    def names(self) -> tuple[str, ...]:
        """Everything written here that can decide, by name: policies, rules, privileges of roles, label policies."""
        privileges = self.roles.everything().authorisations if self.roles is not None else ()
        return (
            *(each.id for each in self.policies),
            *self.interaction.sources,
            *(rule.name for rule in privileges),
            *self.labels,
        )

    def combined(self) -> Iterator[tuple[str, tuple[Policy, ...], Algorithm]]:
        """The policies that combine with each other, by the name of their source."""
        if self.policies:
            yield "abac", self.policies, self.manifest.algorithm
        if self.interaction.policies:
            yield "rules", self.interaction.policies, Algorithm.ALLOW_OVERRIDES

    def sources(self) -> tuple[PolicySource, ...]:
        """What judges requests, compiled."""
        found: list[PolicySource] = [
            AbacSource(policies, algorithm, name) for name, policies, algorithm in self.combined()
        ]
        if self.roles is not None:
            found.append(RoleSource(self.roles.everything()))
        sole = len(self.labels) == 1
        return (*found, *(LabelSource(policy, name, sole) for name, policy in self.labels.items()))

    def allowing(self) -> Iterator[Predicate]:
        """Conditions of which each request that is allowed meets at least one."""
        yield from (each.condition for each in self.every_policy if each.effect is Effect.ALLOW)
        if self.roles is not None:
            yield from map(reach, self.roles.everything().authorisations)
        yield from (In(Path("action"), tuple(each.actions)) for each in self.labels.values() if each.permits)

    def uses(self) -> Iterator[tuple[Predicate, frozenset[Path]]]:
        """What looks at which attributes: where something may apply, and the attributes it then depends on."""
        for policy in self.every_policy:
            yield policy.condition, _tops(paths(policy.condition))
        for rule in self.roles.everything().authorisations if self.roles is not None else ():
            yield (
                reach(rule),
                _tops([ROLES, *(path for each in rule.constraints for path in paths(each.predicate))]),
            )
        for labels in self.labels.values():
            named = (("subject", labels.subjects.attribute), ("object", labels.objects.attribute))
            yield TRUE, frozenset(Path(root, (name,)) for root, name in named if name is not None)

    def written(self) -> Iterator[Mapping[str, object]]:
        """The attribute policies as they are written, decoded."""
        for file in {each.path: each for each in self.files.values()}.values():
            for value in Document.parse(file.text, file.path).values:
                several = value if isinstance(value, list) else [value]
                yield from (each for each in several if isinstance(each, dict))

    def engine(self, epoch: int = 0, certify: bool = False) -> Engine:
        return Engine(self.sources(), epoch, certify)


class _Reader:
    """Reads file after file, and goes on after a problem to find those of the other files."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._problems: list[InvalidSyntax] = []
        self._files: dict[str, File] = {}
        self._first: dict[tuple[str, str], str] = {}
        """The file in which each thing was first given, by what it is and its name."""

    def read(self) -> PolicySet:
        manifests = self._each(FileKind.MANIFEST, self._manifest)
        policies = [each for several in self._each(FileKind.ABAC, self._policies) for each in several]
        rule_sets = self._each(FileKind.ROLES, parse_rules)
        labels = dict(self._each(FileKind.LABELS, self._labels))
        entities = Entities.merge(self._each(FileKind.ENTITIES, self._entities))
        roles = self._together(rule_sets) if rule_sets else None
        seniors = Seniors(roles.everything() if roles is not None else Rulebook())
        interaction = self._interaction(seniors)
        if roles is not None:
            policies = [self._by_role_domain(each, seniors) for each in policies]
        if self._problems:
            raise InvalidPolicies(tuple(self._problems))
        manifest = manifests[0] if manifests else Manifest()
        return PolicySet(
            manifest, tuple(policies), roles, tuple(rule_sets), labels, entities, self._files, interaction
        )

    def _by_role_domain(self, policy: Policy, seniors: Seniors) -> Policy:
        try:
            return by_role_domain(policy, seniors)
        except InvalidTerm as error:
            self._problems.append(locate(self._files[policy.id], policy.id, str(error)))
            return policy

    def _interaction(self, seniors: Seniors) -> Interaction:
        files = self._each(FileKind.RULES, read_rule_file)
        try:
            interaction = Interaction.of(files, seniors)
            for name, (source, rule) in interaction.sources.items():
                if other := self._files.get(name):
                    problem = (
                        f"there is a policy `{name}` in {other.path} already: give the rule another label"
                    )
                    raise InvalidSyntax(problem, *rule.place, source)
        except InvalidSyntax as error:
            # What one file overrides may stand in another, which could not be read.
            if not self._problems:
                self._problems.append(error)
            return Interaction()
        return interaction

    def _each(self, kind: FileKind, parse: Callable[[str, str], T]) -> list[T]:
        found: list[T] = []
        for file in self._bundle.files:
            if file.kind is kind:
                try:
                    found.append(parse(file.text, file.path))
                except InvalidSyntax as error:
                    self._problems.append(error)
        return found

    def _together(self, rule_sets: Sequence[RuleSet]) -> Domains | None:
        try:
            return Domains(rule_sets)
        except InvalidSyntax as error:
            # A file that could not be read may be the one that is missing here.
            if not self._problems:
                self._problems.append(error)
            return None

    def _manifest(self, text: str, source: str) -> Manifest:
        self._only(("manifest", ""), source, "there can be one manifest, and {} is it: put both together")
        return Manifest.parse(text, source)

    def _labels(self, text: str, source: str) -> tuple[str, LabelPolicy]:
        """A label policy with its name: `labels` from `labels.yaml`, `staff` from `staff.labels.yaml`."""
        name = PurePosixPath(source).name.partition(".")[0]
        problem = f"the label policy `{name}` is in {{}} already: give the file another name, such as other.labels.yaml"
        self._only(("label policy", name), source, problem)
        return name, read_label_policy(text, source)

    def _entities(self, text: str, source: str) -> Entities:
        entities = Entities.parse(text, source)
        for kind, known in entities.by_kind.items():
            for name in known:
                first = self._first.setdefault((kind, name), source)
                if first != source:
                    problem = (
                        f"`{name}` is among the {kind} of {first} already: say there all that is known of it"
                    )
                    raise Entities.locate(text, source, kind, name, problem)
        return entities

    def _only(self, thing: tuple[str, str], source: str, problem: str) -> None:
        first = self._first.setdefault(thing, source)
        if first != source:
            raise InvalidSyntax(problem.format(first), 1, 1, source)

    def _policies(self, text: str, source: str) -> Iterable[Policy]:
        policies = read_policies(text, source)
        for policy in policies:
            if other := self._files.get(policy.id):
                problem = f"there is a policy `{policy.id}` in {other.path} already: give each its own uid"
                raise locate(File(source, text), policy.id, problem)
            self._files[policy.id] = File(source, text)
        return policies


def _tops(several: Iterable[Path]) -> frozenset[Path]:
    """The attributes that paths lead into."""
    return frozenset(Path(path.root, path.keys[:1]) for path in several if path.root and path.keys)


def locate(file: File, policy: str, problem: str) -> InvalidSyntax:
    """A problem, said of an attribute policy where it stands in its file."""
    return InvalidSyntax(problem, *places_of(file, [(policy, None)])[0], file.path)


def places_of(file: File, wanted: Sequence[tuple[str, Path | None]]) -> list[tuple[int, int]]:
    """Where policies stand in a file, or an attribute that one of them uses: lines and columns."""
    document = Document.parse(file.text, file.path)
    items: dict[str, tuple[Place, Mapping[str, object]]] = {}
    for number, value in enumerate(document.values):
        for position, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, dict):
                place = (number,) if position is None else (number, position)
                items.setdefault(str(item.get("uid")), (place, item))
    return document.positions(
        [
            _attribute_place(*items[policy], attribute) or (*items[policy][0], "uid")
            for policy, attribute in wanted
        ]
    )


def _attribute_place(place: Place, policy: Mapping[str, object], path: Path | None) -> Place | None:
    """Where the rules of a policy name an attribute."""
    if path is None:
        return None
    element = next(name for name, root in ROOTS.items() if root == path.root)
    rules = policy.get("rules")
    blocks = rules.get(element, {}) if isinstance(rules, dict) else {}
    for number, block in enumerate(blocks) if isinstance(blocks, list) else [(None, blocks)]:
        for text in block if isinstance(block, dict) else ():
            if read_path(element, text) == path:
                step = () if number is None else (number,)
                return (*place, "rules", element, *step, text)
    return None
