"""Short functions for tests of the row-by-row machine of snapshot backfill: tables, chunks, barriers and emitted messages."""

from __future__ import annotations

from collections.abc import Iterable

from support.reference.snapshot import ReferenceSnapshot
from support.reference.vocabulary import Barrier, Chunk, Message, Progress, Table


def table(rows: Iterable[int] = (1, 2, 3), *, epoch: int = 100, vnodes: int = 1) -> Table:
    """Return a table whose value is ten times the key."""
    return Table(vnodes, {epoch: {key: key * 10 for key in rows}})


def chunk(*rows: tuple[str, int]) -> Chunk:
    return Chunk(tuple((op, (key, key * 10)) for op, key in rows))


def inserts(*keys: int) -> Chunk:
    return chunk(*(("+", key) for key in keys))


def machine(
    upstream: Table, *, first: Barrier, own: Barrier = Barrier(0, 1), epoch: int | None = 100, **more: object
) -> ReferenceSnapshot:
    """Return a machine that has both first barriers and has emitted its own."""
    made = ReferenceSnapshot(upstream, epoch, **more)  # type: ignore[arg-type]
    made.upstream.append(first)
    made.injected.append(own)
    assert made.poll()
    return made


def barrier(reference: ReferenceSnapshot, prev: int, curr: int, **more: object) -> list[Message]:
    """Inject a barrier, let the machine do all it can before reading more, and return the emitted messages."""
    before = len(reference.emitted)
    reference.injected.append(Barrier(prev, curr, **more))  # type: ignore[arg-type]
    for _ in range(1000):
        if not reference.injected or not reference.poll():
            break
    return reference.emitted[before:]


def finished(epoch: int, rows: int) -> Progress:
    return Progress(epoch, rows, finished=True, position=None)


def after_snapshot(upstream: Table, pending: list[Message], **more: object) -> ReferenceSnapshot:
    """Return a machine of an empty snapshot of 100 at the beginning of its log phase."""
    reference = machine(upstream, first=Barrier(100, 110), **more)
    reference.upstream.extend(pending)
    for prev, curr in ((1, 2), (2, 100), (100, 110)):
        barrier(reference, prev, curr)
    return reference
