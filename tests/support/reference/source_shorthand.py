"""Short functions for tests of the reference machine of source backfill: topics, states, and drivers of one machine."""

from __future__ import annotations

from typing import Any

from support.reference.source import Input, Output, ReferenceSource
from support.reference.topic import BACKFILLING, CATCHING_UP, FINISHED, Partition, Record, Records, Split, States, Topic
from support.reference.vocabulary import Barrier, Mutation

DONE = Split(FINISHED)


def offsets(split: int, *given: int) -> Records:
    return Records(tuple(Record(split, str(offset)) for offset in given))


def reading(offset: int | None, target: int | None = None, rows: int = 0) -> Split:
    return Split(BACKFILLING, None if offset is None else str(offset), rows, None if target is None else str(target))


def catching_up(offset: int, target: int | None = None, rows: int = 0) -> Split:
    return Split(CATCHING_UP, str(offset), rows, None if target is None else str(target))


def topic(*highs: int, **more: Any) -> Topic:
    """Return partitions 0, 1, ... with a record at each offset below the given ends."""
    return Topic({at: Partition(dict.fromkeys(range(high), True), high=high, **more) for at, high in enumerate(highs)})


def machine(upstream: Topic, stored: dict[int, Split] | None = None, owned: Any = (0,), **more: Any) -> ReferenceSource:
    """Return a machine that has emitted its first barrier."""
    made = ReferenceSource(upstream, owned, more.pop("states", None) or States(stored), **more)
    made.upstream.append(Barrier(0, 1))
    assert made.poll()
    assert made.emitted == [Barrier(0, 1)]
    return made


def take(actor: ReferenceSource, *messages: Input) -> list[Output]:
    """Deliver messages of the shared source, and return the emitted messages."""
    before = len(actor.emitted)
    actor.upstream.extend(messages)
    while actor.upstream:
        actor.poll()
    return actor.emitted[before:]


def read(actor: ReferenceSource) -> list[Output]:
    """Let the reader continue until it has nothing, or may not read."""
    before = len(actor.emitted)
    actor.run()
    return actor.emitted[before:]


def close(actor: ReferenceSource, prev: int, **mutation: Any) -> list[Output]:
    """Send a checkpoint, commit it, and let the machine apply work that waited for the commit."""
    out = take(actor, Barrier(prev, prev + 1, mutation=Mutation(**mutation)))
    actor.states.commit(prev)
    if actor.change is not None:
        assert actor.poll()
    return out


def visible(*messages: Output) -> list[tuple[int, str]]:
    rows = [row for message in messages if isinstance(message, Records) for row in message.rows]
    return [(row.split, row.offset) for row in rows if row.visible]
