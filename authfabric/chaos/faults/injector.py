"""Doing to a fabric what was planned, and undoing it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic

from authfabric.chaos.faults.attackers import Attackers
from authfabric.chaos.faults.plan import FaultKind, Planned
from authfabric.chaos.faults.store_faults import StoreFaults
from authfabric.chaos.faults.stream_watch import StoreWatch
from authfabric.chaos.record import Fault, Recorder
from authfabric.chaos.testbed import NODES, Cluster, Members
from authfabric.chaos.workload import Releaser
from bus.errors import BusError

DELAY_SECONDS = 0.15
SLOW_SECONDS = 1.0
LOSS = 0.05
LIAR = "liar"
JUMPS = (-3600.0, -30.0, -3.0, 3.0, 30.0, 3600.0)
"""Seconds by which a clock is wrong."""
HEAL_SECONDS = 240.0
"""How long the servers may take to have the same again after a fault, damaged copies made anew included."""

Act = Callable[[Planned], Awaitable[str]]


@dataclass
class Faults:
    """What can be done to one fabric."""

    cluster: Cluster
    members: Members
    releaser: Releaser
    watch: StoreWatch
    record: Recorder
    pdps: tuple[str, ...]
    peps: tuple[str, ...]
    accesses: tuple[str, ...]
    brokers: tuple[str, ...]
    stores: StoreFaults
    strangers: Attackers
    acts: dict[FaultKind, Act] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = FaultKind
        self.acts = {
            kinds.NODE_KILLED: self._kill_node,
            kinds.NODE_FROZEN: self._freeze_node,
            kinds.NODE_RESTARTED: self._restart_node,
            kinds.ROLLING_RESTART: self._roll,
            kinds.PARTITION: self._partition,
            kinds.ONE_WAY: self._one_way,
            kinds.LEADER_ISOLATED: self._isolate_leader,
            kinds.MINORITY: self._minority,
            kinds.DELAY: self._delay,
            kinds.PDP_KILLED: lambda planned: self._kill(planned, self.pdps),
            kinds.PDP_FROZEN: lambda planned: self._freeze(planned, self.pdps),
            kinds.PDP_RESTARTED: lambda planned: self._restart(planned, self.pdps),
            kinds.PDP_CUT: lambda planned: self._cut(planned, self.pdps),
            kinds.PDP_SLOW: self._slow_pdp,
            kinds.PEP_KILLED: lambda planned: self._kill(planned, self.peps),
            kinds.PEP_FROZEN: lambda planned: self._freeze(planned, self.peps),
            kinds.PEP_CUT: lambda planned: self._cut(planned, self.peps),
            kinds.ACCESS_KILLED: lambda planned: self._kill(planned, self.accesses),
            kinds.ACCESS_FROZEN: lambda planned: self._freeze(planned, self.accesses),
            kinds.CONNECTIONS_RESET: self._reset,
            kinds.PUSH: self._push,
            kinds.STORE_EMPTIED: self.stores.empty,
            kinds.STORE_RESTORED: self.stores.restore,
            kinds.BLOCK_CORRUPTED: self.stores.corrupt,
            kinds.PDP_LYING: self._lie,
            kinds.BROKER_KILLED: lambda planned: self._kill(planned, self.brokers),
            kinds.BROKER_FROZEN: lambda planned: self._freeze(planned, self.brokers),
            kinds.BROKER_CUT: lambda planned: self._cut(planned, self.brokers),
            kinds.FORGED_RELEASE: lambda _: self.strangers.forge_release(),
            kinds.FORGED_MESSAGES: lambda _: self.strangers.forge_messages(),
            kinds.CONNECTION_STORM: lambda _: self.strangers.storm(),
            kinds.GRANT: lambda _: self.strangers.grant(),
            kinds.REVOCATION: lambda _: self.strangers.revoke(),
        }
        if not self.brokers:
            for kind in (kinds.BROKER_KILLED, kinds.BROKER_FROZEN, kinds.BROKER_CUT):
                del self.acts[kind]
        if self.members.clocks:
            self.acts[kinds.PDP_CLOCK] = self._set_clock
        if self.cluster.disk is not None:
            self.acts[kinds.DISK_FULL] = self.stores.fill

    async def do(self, planned: Planned) -> str:
        """Carry out a fault, undo it, and record both."""
        begun = monotonic()
        try:
            target = await self.acts[planned.kind](planned)
        except BusError as error:  # strangers and operators meet the other faults, too
            target = f"failed: {error}"
        self.record(Fault(begun, str(planned.kind), target, monotonic()))
        return target

    async def heal(self) -> bool:
        """Wait until all servers have the same again: a second fault of a server before that would be two at once.

        Says whether they have.
        """
        return await self.watch.healthy(HEAL_SECONDS)

    def _node(self, planned: Planned) -> str:
        return NODES[planned.choice % len(NODES)]

    async def _kill_node(self, planned: Planned) -> str:
        node = self._node(planned)
        await self.cluster.stop_node(node, signal.SIGKILL)
        await asyncio.sleep(planned.seconds)
        await self.cluster.start_node(node)
        return node

    async def _restart_node(self, planned: Planned) -> str:
        node = self._node(planned)
        await self.cluster.stop_node(node)
        await self.cluster.start_node(node)
        return node

    async def _freeze_node(self, planned: Planned) -> str:
        node = self._node(planned)
        self.cluster.freeze_node(node)
        await asyncio.sleep(planned.seconds)
        self.cluster.thaw_node(node)
        return node

    async def _roll(self, planned: Planned) -> str:
        for node in NODES:
            await self.cluster.stop_node(node)
            await self.cluster.start_node(node)
            await self.heal()
        return "all"

    async def _between(self, planned: Planned, node: str, *, one_way: bool = False) -> str:
        others, network = [each for each in NODES if each != node], self.cluster.network
        network.cut([node], others, one_way=one_way)
        await asyncio.sleep(planned.seconds)
        network.mend([node], others)
        return node

    async def _partition(self, planned: Planned) -> str:
        return await self._between(planned, self._node(planned))

    async def _one_way(self, planned: Planned) -> str:
        return await self._between(planned, self._node(planned), one_way=True)

    async def _isolate_leader(self, planned: Planned) -> str:
        return await self._between(planned, await self.watch.leader() or self._node(planned))

    async def _minority(self, planned: Planned) -> str:
        """A server, a PDP and a PEP that reach each other, and neither the other servers nor the store's majority."""
        node, network = self._node(planned), self.cluster.network
        inside = [self.pdps[planned.choice % len(self.pdps)], self.peps[planned.choice % len(self.peps)]]
        others = [each for each in NODES if each != node]
        network.cut(inside, others)
        network.reset(inside, others)
        await self._between(planned, node)
        network.mend(inside, others)
        return f"{node} with {' and '.join(inside)}"

    async def _delay(self, planned: Planned) -> str:
        node, network = self._node(planned), self.cluster.network
        everybody = [*NODES, *self.pdps, *self.peps, *self.accesses]
        others = [each for each in everybody if each != node]
        network.slow([node], others, DELAY_SECONDS, LOSS)
        await asyncio.sleep(planned.seconds)
        network.mend([node], others)
        return node

    def _pick(self, planned: Planned, among: tuple[str, ...]) -> str:
        return among[planned.choice % len(among)]

    async def _kill(self, planned: Planned, among: tuple[str, ...]) -> str:
        name = self._pick(planned, among)
        await self.members.kill(name)
        await asyncio.sleep(planned.seconds)
        await self.members.start(name)
        return name

    async def _restart(self, planned: Planned, among: tuple[str, ...]) -> str:
        name = self._pick(planned, among)
        await self.members.end(name)
        await self.members.start(name)
        return name

    async def _freeze(self, planned: Planned, among: tuple[str, ...]) -> str:
        name = self._pick(planned, among)
        self.members.freeze(name)
        await asyncio.sleep(planned.seconds)
        self.members.thaw(name)
        return name

    async def _cut(self, planned: Planned, among: tuple[str, ...]) -> str:
        name = self._pick(planned, among)
        self.cluster.network.cut([name], NODES)
        await asyncio.sleep(planned.seconds)
        self.cluster.network.mend([name], NODES)
        return name

    async def _lie(self, planned: Planned) -> str:
        """Have a PDP answer that nobody has let decide."""
        if LIAR in self.members.processes:
            await self.members.start(LIAR)
        else:
            await self.members.add_liar(LIAR)
        await asyncio.sleep(planned.seconds)
        await self.members.end(LIAR)
        return LIAR

    async def _set_clock(self, planned: Planned) -> str:
        """Have a PDP believe that it is another time, and then the right one again."""
        name = self._pick(planned, self.pdps)
        shift = JUMPS[planned.choice // len(self.pdps) % len(JUMPS)]
        self.members.clocks[name].shift(shift)
        await asyncio.sleep(planned.seconds)
        self.members.clocks[name].shift(0.0)
        return f"{name} by {shift:+g} s"

    async def _slow_pdp(self, planned: Planned) -> str:
        name = self._pick(planned, self.pdps)
        self.cluster.network.slow([name], NODES, SLOW_SECONDS)
        await asyncio.sleep(planned.seconds)
        self.cluster.network.mend([name], NODES)
        return name

    async def _reset(self, planned: Planned) -> str:
        name = self._pick(planned, (*self.pdps, *self.peps))
        self.cluster.network.reset([name], NODES)
        return name

    async def _push(self, planned: Planned) -> str:
        return "stored" if await self.releaser.push() else "failed"
