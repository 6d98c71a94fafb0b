"""What the simulator allows a target with one row a key is what the machine of rows says of the same topic."""

import pytest
from support.reference.keyed_topic import Keyed, KeyedTopic
from support.simulation.topic import Topic


def table_of(topic, *, removed):
    """Return the table that the machine of rows makes of a topic, by the simulator's keys; `removed`: with what compaction took."""
    records = {}
    for number, one in topic.partitions.items():
        kept = one.values | one.removed if removed else one.values
        for offset, _ in topic._good(kept, 0, one.high):  # noqa: SLF001 - one side of the comparison
            (partition, key), image = topic._change(number, offset, kept[offset])  # noqa: SLF001 - as above
            records[str(number), offset] = Keyed(f"{partition}-{key}", None if image is None else image[1])
    rows = KeyedTopic(records)
    rows.advance_all({str(number): one.high for number, one in topic.partitions.items()})
    return {key: (place[1], value) for key, (value, place) in rows.table.items()}


@pytest.mark.parametrize("seed", range(60))
def test_the_simulator_asks_for_what_rows_say(seed):
    """ADR 0022: whether a reader came before the compactions or after them; one of both where nothing was compacted."""
    topic = Topic(seed, rows=40, sparse=seed % 2 == 0, filtered=seed % 3 == 0)
    for _ in range(seed % 20):
        topic.commit()

    allowed = topic.folds((number, 0, one.high) for number, one in topic.partitions.items())

    for removed in (True, False):
        table = table_of(topic, removed=removed)
        assert all(table.get(f"{partition}-{key}") in images for (partition, key), images in allowed.items())
        assert table.keys() <= {f"{partition}-{key}" for partition, key in allowed}
    if not topic.compacted:
        assert all(len(images) == 1 for images in allowed.values())
