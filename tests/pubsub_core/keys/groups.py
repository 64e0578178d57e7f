"""A group whose members follow its tree, and the closure of what a coalition can compute."""

import random
from collections import defaultdict

from pubsub_core.key_groups import oft
from pubsub_core.key_groups import oft_member as member_module
from pubsub_core.key_groups import oft_tree as tree_module
from pubsub_core.key_groups.oft_member import Member
from pubsub_core.key_groups.oft_tree import Tree


class Group:
    """A tree and all its members, past and present, each with everything it was ever told."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.tree = Tree(self.random.randbytes)
        self.keys: dict[str, bytes] = {}
        self.members: dict[str, Member] = {}
        self.told: dict[str, set[bytes]] = defaultdict(set)
        self.history: list[tuple[frozenset[str], bytes]] = []
        """Who was a member, and the secret, in each version."""
        self.public: set[bytes] = set()
        self.welcomes = 0

    def rekey(self, leave=(), join=()):
        for name in join:
            self.keys[name] = self.random.randbytes(32)
            self.told[name].add(self.keys[name])
        rekey = self.tree.rekey(self.keys, leave, join)
        for name in leave:
            del self.members[name]
        for each in self.members.values():
            each.apply(rekey)
        for name in join:
            seat = self.tree.seat(name)
            self.members[name] = Member(self.keys[name], seat)
            self.told[name].update(
                value for step in seat.way for value in (step.key, step.blinded, step.sibling)
            )
        self.public.update(box.data for box in (*rekey.leaves, *rekey.blinds))
        self.history.append((frozenset(self.members), self.tree.secret))
        return rekey


class Derivations:
    """Every computation that anyone makes with the functions of the tree, as rules from inputs to output."""

    def __init__(self, monkeypatch) -> None:
        self.rules: dict[bytes, list[tuple[frozenset[bytes], bytes]]] = defaultdict(list)
        for name in ("blind", "turn", "mix", "secret_of"):
            self._watch(monkeypatch, name)
        self._watch_wrap(monkeypatch)

    def learn(self, inputs, output) -> None:
        rule = (frozenset(inputs), output)
        for each in rule[0]:
            self.rules[each].append(rule)

    def closure(self, known: set[bytes]) -> set[bytes]:
        """All that follows from what is known."""
        known, todo = set(known), list(known)
        while todo:
            for inputs, output in self.rules.get(todo.pop(), ()):
                if output not in known and inputs <= known:
                    known.add(output)
                    todo.append(output)
        return known

    def _watch(self, monkeypatch, name) -> None:
        real = getattr(oft, name)

        def watched(*arguments):
            output = real(*arguments)
            self.learn([each for each in arguments if isinstance(each, bytes)], output)
            return output

        for module in (oft, tree_module, member_module):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, watched)

    def _watch_wrap(self, monkeypatch) -> None:
        real = oft.wrap

        def watched(key, version, content, draw):
            box = real(key, version, content, draw)
            self.learn((key, box), content)
            return box

        monkeypatch.setattr(tree_module, "wrap", watched)
