"""Random py-abac policies and requests, of every condition class, where py-abac is well defined.

What is left out, since there the fabric differs on purpose, is listed in docs/design/py-abac-differences.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from authz import Entity, Request

TEXTS = [
    "a",
    "ab",
    "abc",
    "Abc",
    "b",
    "B-1",
    "x.y",
    "",
    "a\n",
    "a\nb",
    "é b",
    "É",
    "straße",
    "ſ",
    "\u212a",
    "٣",
    "\x1c",
    "😀",
]
NUMBERS = [-1, 0, 1, 1.0, 2, 2.5, 10, 1000]
ADDRESSES = ["10.0.0.1", "10.0.7.1", "192.168.1.4", "::1", "fe80::1", "nowhere"]
NETWORKS = ["10.0.0.0/8", "10.0.0.0/24", "192.168.0.0/16", "::/64", "fe80::/10", "10.0.0.1"]
SUBJECTS = ["ann", "bob", "eve", "svc:a", "svc:b"]
OBJECTS = ["/docs/a", "/docs/b", "/docs/a/1", "/hr/a", "/hr/b/2", "root"]
ACTIONS = ["read", "write", "delete"]
OBJECT_TARGETS = [
    "*",
    "/docs/*",
    "/docs/a",
    "/docs/a*",
    "/hr/*",
    "*a",
    "*/b*",
    "/docs/[ab]",
    "/*/a",
    "/hr/?",
    "root",
]
SUBJECT_TARGETS = ["*", "*", "ann", "bob", "svc:*", "[ab]*", "?ve", "*b", "e?e"]
ACTION_TARGETS = ["*", "read", "write", "del*", "[rw]*", "*e"]
REGEXES = ["a", "^a", "b$", "^[A-Z]", "x|\\.", "^$", "\\d"]
REGEX_FLAGS = ["", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?ia)", "(?im)"]
REGEX_STEPS = [
    *("a", "b", "A", "s", "k", "é", "ß", "\\n", ".", "\\w", "\\W", "\\d", "\\D", "\\s", "\\S"),
    *("[a-c]", "[^a]", "[\\wß]", "[^\\d\\s]", "[É-é]", "(?:a|é)", "(?i:S)", "(?-i:a)", "(b|)"),
]
REGEX_COUNTS = ["", "", "", "*", "+", "?", "{2}", "{1,2}?"]
OBJECTS_VALUES = [{"city": "a"}, {"city": "b", "zip": 1}, {}, {"city": "a", "zip": [1, "x"]}]


class Cases:
    """A world of random policies and requests, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds: dict[str, int] = {}
        """How often each condition class was made."""

    def policies(self, most: int = 12) -> list[dict[str, object]]:
        return [self.policy(f"p{n}") for n in range(self.random.randint(1, most))]

    def policy(self, uid: str) -> dict[str, object]:
        pick = self.random
        policy: dict[str, object] = {
            "uid": uid,
            "rules": {
                each: self.block()
                for each in ("subject", "resource", "action", "context")
                if pick.random() < 0.3
            },
            "targets": self.targets(),
            "effect": pick.choice(["allow", "allow", "deny"]),
        }
        if pick.random() < 0.5:
            policy["priority"] = pick.randint(0, 3)
        return policy

    def targets(self) -> dict[str, object]:
        given = {"subject_id": SUBJECT_TARGETS, "resource_id": OBJECT_TARGETS, "action_id": ACTION_TARGETS}
        return {name: self._target(several) for name, several in given.items() if self.random.random() < 0.6}

    def _target(self, several: list[str]) -> object:
        if self.random.random() < 0.6:
            return self.random.choice(several)
        return self.random.choices(several, k=self.random.randint(1, 3))

    def block(self) -> object:
        if self.random.random() < 0.7:
            return self._all_of()
        return [self._all_of() for _ in range(self.random.randint(0, 2))]

    def _all_of(self) -> dict[str, object]:
        paths = self.random.sample(sorted(CONDITIONS), k=self.random.choice([0, 1, 1, 1, 2]))
        return {path: self.condition(path) for path in paths}

    def condition(self, path: str, depth: int = 2) -> dict[str, object]:
        pick = self.random
        if depth and pick.random() < 0.2:
            name = pick.choice(["AllOf", "AnyOf", "Not"])
            inner = [self.condition(path, depth - 1) for _ in range(pick.randint(1, 2))]
            condition = {"value": inner[0]} if name == "Not" else {"values": inner}
        else:
            name = pick.choice(CONDITIONS[path])
            condition = self._fields(name, path)
        self.kinds[name] = self.kinds.get(name, 0) + 1
        return {"condition": name, **condition}

    def _fields(self, name: str, path: str) -> dict[str, object]:
        pick = self.random
        if name in ("Eq", "Neq", "Gt", "Gte", "Lt", "Lte"):
            return {"value": pick.choice(NUMBERS)}
        if name == "RegexMatch":
            return {"value": self._regex()}
        if name in TEXT_TESTS:
            return {"value": pick.choice(TEXTS), "case_insensitive": pick.random() < 0.3}
        if name == "CIDR":
            return {"value": pick.choice(NETWORKS)}
        if name == "EqualsObject":
            return {"value": pick.choice(OBJECTS_VALUES)}
        if name.endswith("Attribute"):
            ace, other = pick.choice(
                [("subject", "$.groups"), ("resource", "$.groups"), ("context", "$.pair")]
            )
            if name.startswith(("Equals", "NotEquals")):
                ace, other = pick.choice([("subject", "$.name"), ("resource", "$.name")])  # never missing
            return {"ace": ace, "path": other}
        if name in ("IsEmpty", "IsNotEmpty", "Exists", "NotExists", "Any"):
            return {}
        if path == "$.flag":
            return {"values": pick.sample([True, False, "a", "b"], k=2)}
        if path == "$.address":
            return {"values": pick.sample([*OBJECTS_VALUES, "a"], k=2)}
        return {"values": pick.sample([*TEXTS, *NUMBERS], k=pick.randint(0, 4))}

    def _regex(self) -> str:
        pick = self.random
        if pick.random() < 0.3:
            return pick.choice(REGEXES)
        steps = "".join(
            pick.choice(REGEX_STEPS) + pick.choice(REGEX_COUNTS) for _ in range(pick.randint(1, 3))
        )
        start, end = pick.choice(["", "^", "\\A"]), pick.choice(["", "$", "\\Z"])
        return pick.choice(REGEX_FLAGS) + start + steps + end

    def requests(self, count: int) -> Iterator[Request]:
        pick = self.random
        for _ in range(count):
            yield Request(
                Entity(pick.choice(SUBJECTS), self.attributes()),
                Entity(pick.choice(OBJECTS), self.attributes()),
                Entity(pick.choice(ACTIONS), self.attributes()),
                self.attributes(),
            )

    def attributes(self) -> dict[str, object]:
        pick = self.random
        found: dict[str, object] = {"name": pick.choice(TEXTS)}
        some = {
            "dept": pick.choice([*TEXTS, 1, ["a"]]),
            "level": pick.choice([*NUMBERS, "2", []]),
            "flag": pick.choice([True, False, "a", ["b"]]),
            "groups": pick.choice([pick.sample([*TEXTS, *NUMBERS], k=pick.randint(0, 3)), "a", 1]),
            "pair": pick.choices([*TEXTS, *NUMBERS], k=2),
            "address": pick.choice(OBJECTS_VALUES),
            "ip": pick.choice([*ADDRESSES, 7]),
        }
        found.update({name: value for name, value in some.items() if pick.random() < 0.7})
        return found


TEXT_TESTS = ["Equals", "NotEquals", "Contains", "NotContains", "StartsWith", "EndsWith"]
_ANYTHING = ["Exists", "NotExists", "Any", "IsIn", "IsNotIn"]
_TEXT = [
    *TEXT_TESTS,
    "RegexMatch",
    "RegexMatch",
    "RegexMatch",
    *_ANYTHING,
    "IsInAttribute",
    "IsNotInAttribute",
]
_NUMBER = ["Eq", "Neq", "Gt", "Gte", "Lt", "Lte"]
_LIST = ["AllIn", "AllNotIn", "AnyIn", "AnyNotIn", "IsEmpty", "IsNotEmpty"]
_LIST_ATTRIBUTE = ["AllInAttribute", "AllNotInAttribute", "AnyInAttribute", "AnyNotInAttribute"]
CONDITIONS = {
    "$.name": [*_TEXT, "EqualsAttribute", "NotEqualsAttribute"],
    "$.dept": [*_TEXT, "EqualsAttribute", "NotEqualsAttribute"],
    "$.level": [*_NUMBER, *_NUMBER, *_ANYTHING, *_TEXT],
    "$.flag": [*_ANYTHING, "Equals"],
    "$.groups": [*_LIST, *_LIST, *_LIST_ATTRIBUTE, "Exists", "NotExists", "Any"],
    "$.pair[1]": [*_TEXT, *_NUMBER],
    "$.address": ["EqualsObject", *_ANYTHING],
    "$.address.city": _TEXT,
    "$.address.zip": ["Eq", "Gt", "Exists", "NotExists"],
    "$.ip": ["CIDR", "CIDR", "Exists", "StartsWith"],
}
