"""Short words for tests of the reference machine of source backfill: topics, states, and what drives one machine."""

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
    one = ReferenceSource(upstream, owned, more.pop("states", None) or States(stored), **more)
    one.upstream.append(Barrier(0, 1))
    assert one.poll()
    assert one.emitted == [Barrier(0, 1)]
    return one


def take(one: ReferenceSource, *messages: Input) -> list[Output]:
    """Let messages of the shared source arrive, and return what came out."""
    before = len(one.emitted)
    one.upstream.extend(messages)
    while one.upstream:
        one.poll()
    return one.emitted[before:]


def read(one: ReferenceSource) -> list[Output]:
    """Let the reader go on until it has nothing, or may not."""
    before = len(one.emitted)
    one.run()
    return one.emitted[before:]


def close(one: ReferenceSource, prev: int, **mutation: Any) -> list[Output]:
    """Send a checkpoint, commit it, and let the machine apply what waited for the commit."""
    out = take(one, Barrier(prev, prev + 1, mutation=Mutation(**mutation)))
    one.states.commit(prev)
    if one.change is not None:
        assert one.poll()
    return out


def visible(*messages: Output) -> list[tuple[int, str]]:
    rows = [row for message in messages if isinstance(message, Records) for row in message.rows]
    return [(row.split, row.offset) for row in rows if row.visible]
