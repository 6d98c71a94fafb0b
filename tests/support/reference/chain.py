"""The rearranged chain, row by row, by semantics 2.3, with a bounded queue: the reference model for other implementations.

It uses nothing of the implementation under test. Barriers overtake data: each leaves a phantom at its true place in the queue.
The snapshot is a queue that the environment fills; `poll` does one step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from support.reference.vocabulary import Barrier, Chunk, Fatal, Message, Report


@dataclass(frozen=True, slots=True)
class Phantom:
    """Original place of a barrier among the data that it overtook."""

    barrier: Barrier


class ReferenceChain:
    """One actor. Phases: `start`, `rearranging`, `draining`, `forwarding`.

    `queue_max`: data messages that may wait; above it the upstream is polled for barriers only once they are at its head.
    """

    def __init__(self, snapshot: list[Chunk], *, newly_added: bool = True, queue_max: int = 1000) -> None:
        """Begin with the snapshot at the first barrier's `prev`; an actor that is not new does not open it."""
        self.upstream: deque[Message] = deque()
        self.emitted: list[Message] = []
        self.reports: list[Report] = []
        self.phase = "start"
        self.opened = False
        self.rows = 0
        self.queue: deque[Message | Phantom] = deque()
        self._snapshot, self._newly_added, self._queue_max = deque(snapshot), newly_added, queue_max
        self._last: Barrier | None = None

    def poll(self) -> bool:
        """Do one step; an available barrier comes first while rearranging (R-CHAIN-4)."""
        if self.phase == "start":
            return self._start()
        if self.phase == "rearranging":
            return self._pull() or self._merge()
        if self.phase == "draining":
            return self._drain()
        return self._forward()

    def run(self) -> None:
        """Poll until there is nothing to do."""
        while self.poll():
            pass

    def end(self) -> None:
        """End the upstream."""
        if self.phase == "rearranging":
            raise Fatal("the upstream ended while rearranging (R-CHAIN-14)")

    def _start(self) -> bool:
        if not self.upstream:
            return False
        first = self.upstream.popleft()
        if not isinstance(first, Barrier):
            raise Fatal("the first message must be a barrier")
        self.emitted.append(first)
        self._last = first
        self.opened = self._newly_added
        self.phase = "rearranging" if self._newly_added else "forwarding"
        if self.opened:
            self.queue.append(Phantom(first))
        return True

    def _pull(self) -> bool:
        """Move messages into the queue up to a barrier, which is emitted at once and leaves its phantom."""
        moved = False
        while self.upstream:
            full = sum(isinstance(message, Chunk) for message in self.queue) >= self._queue_max
            if full and not isinstance(self.upstream[0], Barrier):
                return moved
            message = self.upstream.popleft()
            if isinstance(message, Barrier):
                self._last = message
                self.emitted.append(message)
                self.queue.append(Phantom(message))
                return True
            if isinstance(message, Chunk):
                self.queue.append(message)  # a watermark is dropped (R-CHAIN-12)
            moved = True
        return moved

    def _merge(self) -> bool:
        """Emit one message of the snapshot, then of the queue; a phantom that meets the last barrier ends it."""
        if self._snapshot:
            self._emit_counted(self._snapshot.popleft())
            return True
        if not self.queue:
            return False
        message = self.queue.popleft()
        if isinstance(message, Chunk):
            self._emit_counted(message)
        elif isinstance(message, Phantom):
            assert self._last is not None
            self.reports.append(Report("update", message.barrier.curr, self.rows))
            if message.barrier.curr >= self._last.curr:
                self.phase = "draining"
        return True

    def _emit_counted(self, chunk: Chunk) -> None:
        self.rows += len(chunk.rows)
        self.emitted.append(chunk)

    def _drain(self) -> bool:
        if not self.queue:
            self.phase = "forwarding"
            return True
        message = self.queue.popleft()
        if not isinstance(message, Phantom):
            self.emitted.append(message)
        return True

    def _forward(self) -> bool:
        if not self.upstream:
            return False
        message = self.upstream.popleft()
        if (
            isinstance(message, Barrier)
            and self._newly_added
            and not any(report.kind == "finish" for report in self.reports)
        ):
            self.reports.append(Report("finish", message.curr, self.rows))
        self.emitted.append(message)
        return True
