"""The policies of a bundle, read: everything that decides, and where each of it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TypeVar

from authz import AuthFabricError
from authz.change import ROLES
from authz.decision import Effect
from authz.errors import InvalidSyntax
from authz.predicate import TRUE, In, Path, Predicate, paths, widen
from authz.predicate.widening import attributes
from pdp.abac import ROOTS, AbacSource, Algorithm, PackedSource, Policy, read_path, read_policies
from pdp.bundle.bundle import Bundle, File, FileKind
from pdp.bundle.entities import Entities
from pdp.bundle.manifest import Manifest
from pdp.bundle.packed import PackedPolicies, PolicyList, pack_policy
from pdp.bundle.role_comparison import by_role_domain
from pdp.documents import Document, Place
from pdp.engine import Engine, PolicySource, check_condition, pack_index
from pdp.labels import LabelPolicy, LabelSource, read_label_policy
from pdp.oasis import Domains, InvalidTerm, RoleHierarchy, RoleSource, Rulebook, RuleSet, reach
from pdp.oasis import parse as parse_rules
from pdp.rules import Interaction, read_rule_file

T = TypeVar("T")


class InvalidPolicies(AuthFabricError):
    """Policies that cannot be read; `problems` are those of each file, with line and column."""

    def __init__(self, problems: tuple[InvalidSyntax, ...]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class PolicySet:
    """What a bundle says."""

    manifest: Manifest = field(default_factory=Manifest)
    policies: Sequence[Policy] = ()
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
    packed: PackedPolicies | None = None
    """What these were opened from, if they were."""

    @classmethod
    def open(cls, packed: PackedPolicies) -> PolicySet:
        """The policies that were packed; `files` is empty."""
        others = _Reader(Bundle(packed.others)).read()
        return replace(others, policies=PolicyList(packed.policies), packed=packed)

    def pack(self, bundle: bytes) -> PackedPolicies:
        """What `open` opens; the bundle of these policies is given packed. Raises InvalidPredicate."""
        return PackedPolicies(
            bundle,
            tuple(each for each in Bundle.unpack(bundle).files if each.kind is not FileKind.ABAC),
            list(map(pack_policy, self.policies)),
            PackedSource.of(self.policies, self.manifest.algorithm),
            pack_index(self.needs()) if self.provided else b"",
        )

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

    @property
    def empty(self) -> bool:
        """Whether nothing is written here that could decide, nor any rule."""
        rules = (
            *(each.statements for each in self.rule_sets),
            *(each.rules for each in self.interaction.files),
        )
        return not (self.policies or self.labels or any(rules))

    def combined(self) -> Iterator[tuple[str, Sequence[Policy], Algorithm]]:
        """The policies that combine with each other, by the name of their source."""
        if self.policies:
            yield "abac", self.policies, self.manifest.algorithm
        if self.interaction.policies:
            yield "rules", self.interaction.policies, Algorithm.ALLOW_OVERRIDES

    def _packed(self, source: str) -> PackedSource | None:
        return self.packed.source if self.packed is not None and source == "abac" else None

    def sources(self) -> tuple[PolicySource, ...]:
        """What judges requests, compiled."""
        found: list[PolicySource] = [
            AbacSource(policies, algorithm, name, self._packed(name))
            for name, policies, algorithm in self.combined()
        ]
        return (*found, *self._other_sources())

    def _other_sources(self) -> Iterator[PolicySource]:
        if self.roles is not None:
            yield RoleSource(self.roles.everything())
        sole = len(self.labels) == 1
        yield from (LabelSource(policy, name, sole) for name, policy in self.labels.items())

    def verify(self) -> None:
        """Raise what compiling them would raise, in a fraction of the time."""
        for each in self.every_policy:
            check_condition(each.condition)
        list(self._other_sources())

    def allowing(self) -> Iterator[Predicate]:
        """Conditions of which each request that is allowed meets at least one."""
        yield from (each.condition for each in self.every_policy if each.effect is Effect.ALLOW)
        if self.roles is not None:
            yield from map(reach, self.roles.everything().authorisations)
        yield from (In(Path("action"), tuple(each.actions)) for each in self.labels.values() if each.permits)

    def uses(self) -> Iterator[tuple[Predicate, frozenset[Path]]]:
        """What looks at which attributes: where something may apply, and the attributes it then depends on."""
        yield from map(_use, self.policies)
        yield from self._other_uses()

    def needs(self) -> Iterator[tuple[int, Predicate]]:
        """Of all uses, by number, those of attributes that are looked up: where these are needed, as far as is sent."""
        provided = self.provided
        unseen = attributes(provided)
        for number, (condition, used) in enumerate(self.uses()):
            if used & provided:
                yield number, widen(condition, unseen)

    def needed(self) -> Callable[[int], tuple[Predicate, frozenset[Path]]]:
        """Where attributes are needed that are looked up, and which, by the number of the use."""
        unseen, provided, others = attributes(self.provided), self.provided, list(self._other_uses())

        def need(number: int) -> tuple[Predicate, frozenset[Path]]:
            count = len(self.policies)
            condition, used = _use(self.policies[number]) if number < count else others[number - count]
            return widen(condition, unseen), used & provided

        return need

    def _other_uses(self) -> Iterator[tuple[Predicate, frozenset[Path]]]:
        yield from map(_use, self.interaction.policies)
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
        files = {each.path: each for each in self.files.values()}.values()
        for file in self.packed.files() if self.packed is not None else files:
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
        seniors = RoleHierarchy(roles.everything() if roles is not None else Rulebook())
        interaction = self._interaction(seniors)
        if roles is not None:
            policies = [self._by_role_domain(each, seniors) for each in policies]
        if self._problems:
            raise InvalidPolicies(tuple(self._problems))
        manifest = manifests[0] if manifests else Manifest()
        return PolicySet(
            manifest, tuple(policies), roles, tuple(rule_sets), labels, entities, self._files, interaction
        )

    def _by_role_domain(self, policy: Policy, seniors: RoleHierarchy) -> Policy:
        try:
            return by_role_domain(policy, seniors)
        except InvalidTerm as error:
            self._problems.append(locate(self._files[policy.id], policy.id, str(error)))
            return policy

    def _interaction(self, seniors: RoleHierarchy) -> Interaction:
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
                    self._problems += (error, *error.others)
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


def _use(policy: Policy) -> tuple[Predicate, frozenset[Path]]:
    return policy.condition, _tops(paths(policy.condition))


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
