"""A script that decides by itself: no server, no other process."""

import asyncio

from authz import Entity
from pep import Enforcer

POLICIES = """
- uid: owners-edit
  description: Whoever owns a note may edit it.
  effect: allow
  targets: {resource_id: /notes/*, action_id: edit}
  rules:
    subject: {}
    resource:
      $.owner: {condition: EqualsAttribute, ace: subject, path: id}
    action: {}
    context: {}
"""


async def main() -> None:
    note = Entity("/notes/1", {"owner": "ann"})
    async with Enforcer.local(POLICIES) as pep:
        for user in ("ann", "bob"):
            decision = await pep.check(user, note, "edit")
            print(f"{user}: {decision.effect}")
        print(await pep.explain("bob", note, "edit"))


if __name__ == "__main__":
    asyncio.run(main())
