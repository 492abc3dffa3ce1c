"""How long a message between processes takes: the time to start, the time of each hop, and its bytes on a link."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """Bytes per second that each process can send over the link, and seconds per hop."""

    rate: float
    hop: float


@dataclass(frozen=True)
class Fabric:
    """Nodes of `node` processes, a link `inside` each and another `between` them; a message takes `start` more.

    The defaults are assumptions, not measurements: NVLink of the fourth generation at 400 of its 450 GB/s, InfiniBand
    of 400 Gbit/s per GPU, and hops with which a sum of a few bytes takes 19 µs on 8 GPUs and 79 µs on 512.
    """

    node: int = 8
    inside: Link = Link(400e9, 1.5e-6)
    between: Link = Link(50e9, 5e-6)
    start: float = 10e-6

    def all_reduce(self, message: int, processes: int) -> float:
        """Seconds to sum `message` bytes over processes: 2 M (W − 1)/W over the slowest link, on a ring or a tree."""
        if processes == 1:
            return 0.0
        hops = 2 * min(self._around(processes), self._down(processes))
        return self.start + hops + 2 * self._sending(message, processes)

    def all_gather(self, message: int, processes: int) -> float:
        """Seconds until all have the `message` bytes of which each has its share: M (W − 1)/W around a ring.

        A reduce-scatter takes as long.
        """
        return 0.0 if processes == 1 else self.start + self._around(processes) + self._sending(message, processes)

    def _sending(self, message: int, processes: int) -> float:
        link = self.inside if processes <= self.node else self.between
        return message * (processes - 1) / processes / link.rate

    def _around(self, processes: int) -> float:
        """The hops of a ring: W − 1, one of them out of each node if there are several."""
        nodes = math.ceil(processes / self.node)
        out = nodes if nodes > 1 else 0
        return (processes - 1 - max(0, out - 1)) * self.inside.hop + max(0, out - 1) * self.between.hop

    def _down(self, processes: int) -> float:
        """The hops of a tree, from its root to its leaves: log₂ of the processes of a node and of the nodes."""
        nodes = math.ceil(processes / self.node)
        return _levels(min(processes, self.node)) * self.inside.hop + _levels(nodes) * self.between.hop


def _levels(n: int) -> int:
    return math.ceil(math.log2(n))


def fitted(processes: int, small: float, large: float, message: int) -> Fabric:
    """The fabric of processes on one machine, from the seconds of a sum of few bytes and of one of `message` bytes."""
    sent = 2 * message * (processes - 1) / processes
    return Fabric(processes, Link(sent / max(large - small, 1e-9), 0.0), Link(1.0, 0.0), small)
