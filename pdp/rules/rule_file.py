"""Files of rules, and whether rules can stand together: each label once, and nothing overridden that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from authz.errors import InvalidSyntax
from authz.rules import AllowDuring, FluentRule, Restrict, Rule, Transform, parse_rules


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of one file."""

    source: str
    rules: tuple[Rule, ...]

    def name(self, rule: Rule) -> str:
        """What a rule is called in decisions: its label, or where it stands."""
        return rule.label or f"{self.source}:{rule.place[0]}"


def read_rule_file(text: str, source: str) -> RuleFile:
    """Raises InvalidSyntax."""
    return RuleFile(source, parse_rules(text, source))


def type_of(rule: Rule) -> str | None:
    """The type whose events a rule is about; none for rules about a fluent."""
    return None if isinstance(rule.body, FluentRule | AllowDuring) else rule.body.type


def check_labels(files: Sequence[RuleFile]) -> None:
    """Raises InvalidSyntax for the first label that is there twice, or overridden and cannot be."""
    labels: dict[str, tuple[str, Rule]] = {}
    for file in files:
        for rule in file.rules:
            if rule.label and (first := labels.setdefault(rule.label, (file.source, rule)))[1] is not rule:
                place = f"{first[0]}:{first[1].place[0]}"
                problem = f"there is a rule `{rule.label}` in {place} already: give each its own label"
                raise InvalidSyntax(problem, *rule.place, file.source)
    rules = {label: rule for label, (_, rule) in labels.items()}
    for file in files:
        for rule in file.rules:
            if problem := next(_wrong_overrides(rule, rules), ""):
                raise InvalidSyntax(problem, *rule.place, file.source)


def _wrong_overrides(rule: Rule, labels: Mapping[str, Rule]) -> Iterator[str]:
    for each in overrides(rule):
        if each not in labels:
            known = ", ".join(map("`{}`".format, labels)) or "none"
            yield f"there is no rule `{each}` to override: those with labels are {known}"
        elif not isinstance(labels[each].body, Restrict | Transform):
            yield f"`{each}` cannot be overridden: only RESTRICT and TRANSFORM can"
        elif type_of(labels[each]) != type_of(rule):
            yield f"`{each}` is about `{type_of(labels[each])}`, and can be overridden only by rules about that"
        elif rule.label and _leads(each, rule.label, labels):
            yield f"`{rule.label}` overrides `{each}`, which overrides it in turn: leave one of them out"


def overrides(rule: Rule) -> tuple[str, ...]:
    """The labels of the rules whose place this one takes where it applies."""
    return rule.body.overrides if isinstance(rule.body, Restrict | Transform) else ()


def _leads(start: str, wanted: str, labels: Mapping[str, Rule]) -> bool:
    """Whether one rule overrides another, at first hand or by way of others."""
    seen, pending = set[str](), [start]
    while pending:
        each = pending.pop()
        if each == wanted:
            return True
        if each not in seen and each in labels:
            seen.add(each)
            pending += overrides(labels[each])
    return False
