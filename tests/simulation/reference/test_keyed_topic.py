"""The simulator's expectations of a target with one row per key agree with the machine of rows for the same topic."""

import pytest
from support.reference.keyed_topic import Keyed, KeyedTopic
from support.simulation.topic import Topic


def table_of(topic, *, removed):
    """Return the table that the machine of rows makes of a topic, by the simulator's keys; `removed` includes compacted
    records."""
    records = {}
    for number, partition_log in topic.partitions.items():
        kept = partition_log.values | partition_log.removed if removed else partition_log.values
        for offset, _ in topic._good(kept, 0, partition_log.high):  # noqa: SLF001 - one side of the comparison
            (partition, key), image = topic._change(number, offset, kept[offset])  # noqa: SLF001 - one side of the comparison
            records[str(number), offset] = Keyed(f"{partition}-{key}", None if image is None else image[1])
    rows = KeyedTopic(records)
    rows.advance_all({str(number): partition_log.high for number, partition_log in topic.partitions.items()})
    return {key: (place[1], value) for key, (value, place) in rows.table.items()}


@pytest.mark.parametrize("seed", range(60))
def test_the_simulator_expects_the_table_of_the_machine_of_rows(seed):
    """ADR 0022: a reader may come before or after compactions; without compactions, one image per key is allowed."""
    topic = Topic(seed, rows=40, sparse=seed % 2 == 0, filtered=seed % 3 == 0)
    for _ in range(seed % 20):
        topic.commit()

    allowed = topic.folds((number, 0, partition_log.high) for number, partition_log in topic.partitions.items())

    for removed in (True, False):
        table = table_of(topic, removed=removed)
        assert all(table.get(f"{partition}-{key}") in images for (partition, key), images in allowed.items())
        assert table.keys() <= {f"{partition}-{key}" for partition, key in allowed}
    if not topic.compacted:
        assert all(len(images) == 1 for images in allowed.values())
