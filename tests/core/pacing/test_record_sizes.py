"""Reads around oversized records: no consumer decompresses one of them, and each other record is read once."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.record_sizes import HEAP_PER_BYTE, POLL_RECORDS, MeasuredRecord, RangeMeter, RecordMemory
from backfill_core.positions.offsets import OffsetRange

LIMIT = 1000
MEMORY = RecordMemory(LIMIT * HEAP_PER_BYTE * 2, 2)


@dataclass(frozen=True)
class Batch:
    """A batch of a partition, with the sizes of its records; a size of `None` is an offset without a record."""

    start: int
    sizes: tuple[int | None, ...]

    @property
    def stop(self):
        return self.start + len(self.sizes)

    @property
    def records(self):
        return [MeasuredRecord(self.start + at, size) for at, size in enumerate(self.sizes) if size is not None]


@st.composite
def partitions(draw):
    """Draw a partition's batches, with gaps and oversized records."""
    size = st.sampled_from([None, 1, 1, 1, 10, LIMIT // 3, LIMIT, LIMIT + 1])
    batches, at = [], 0
    for sizes in draw(st.lists(st.lists(size, min_size=1, max_size=6), min_size=1, max_size=12)):
        batches.append(Batch(at, tuple(sizes)))
        at += len(sizes)
    return batches


def measured(batches, span, known=()):
    """Measure a range as the source does: from the batch of its start, to the end of the partition."""
    meter = RangeMeter(span, MEMORY, known)
    for batch in batches:
        if batch.stop > span.start and not meter.done:
            meter.take(batch.records, batch.stop)
    return meter.result()


class Consumer:
    """A consumer as Kafka has it: it decompresses a batch from its start, and up to the polled number of records."""

    def __init__(self, batches):
        self.batches, self.largest = batches, 0

    def read(self, paced):
        """Return the offsets that Spark reads from a range: it polls until it is at the end of the range."""
        at, offsets = paced.span.start, []
        while at < paced.span.stop:
            polled = self.poll(at, paced.records_per_poll)
            if not polled:
                break
            offsets += [offset for offset in polled if offset < paced.span.stop]
            at = polled[-1] + 1
        return offsets

    def poll(self, at, records):
        polled = []
        for batch in self.batches:
            for record in batch.records if batch.stop > at else ():
                if len(polled) == records:
                    return polled
                self.largest = max(self.largest, record.size_bytes)
                if record.offset >= at:
                    polled.append(record.offset)
        return polled


class TestARangeWithOversizedRecords:
    """Decompressing one of them ends Java."""

    @given(partitions(), st.data())
    def test_each_record_is_read_once_or_left_unread_and_none_is_decompressed_that_is_too_large(self, batches, data):
        """The oracle is a consumer that decompresses as Kafka's does."""
        end = batches[-1].stop
        start = data.draw(st.integers(0, end - 1))
        span = OffsetRange("0", start, data.draw(st.integers(start + 1, end)))
        expected = [
            record.offset for batch in batches for record in batch.records if start <= record.offset < span.stop
        ]

        result = measured(batches, span)
        consumer = Consumer(batches)
        offsets = [offset for paced in result.reads for offset in consumer.read(paced)]

        assert consumer.largest <= LIMIT
        assert sorted([*offsets, *(left.record.offset for left in result.unread)]) == expected

    @given(partitions())
    def test_only_oversized_records_and_later_ones_of_their_batch_are_left_unread(self, batches):
        """Others are rows like any other."""
        result = measured(batches, OffsetRange("0", 0, batches[-1].stop))

        hidden = set()
        for batch in batches:
            sizes = [record.size_bytes > LIMIT for record in batch.records]
            hidden |= {record.offset for at, record in enumerate(batch.records) if any(sizes[: at + 1])}
        assert {left.record.offset for left in result.unread} == hidden

    @given(partitions())
    def test_the_same_records_stay_unread_with_more_memory(self, batches):
        """A receipt compares the rows of an earlier attempt, which had less memory."""
        span = OffsetRange("0", 0, batches[-1].stop)
        first = measured(batches, span)
        meter = RangeMeter(span, RecordMemory(MEMORY.heap_bytes * 1000, 1), first.holes)
        for batch in batches:
            meter.take(batch.records, batch.stop)

        assert [left.record for left in meter.result().unread] == [left.record for left in first.unread]

    def test_many_records_before_an_oversized_one_are_read_several_at_a_time(self):
        """Only the last ones are read one at a time, because each poll takes a millisecond."""
        batches = [Batch(0, (1,) * 2000), Batch(2000, (LIMIT + 1,))]

        result = measured(batches, OffsetRange("0", 0, 2001))

        assert [(read.span.start, read.span.stop, read.records_per_poll) for read in result.reads] == [
            (0, 1500, POLL_RECORDS), (1500, 2000, 1),
        ]  # fmt: skip
        assert result.holes == (OffsetRange("0", 2000, 2001),)

    def test_a_range_without_an_oversized_record_nearby_is_read_as_usual(self):
        """A resumed job is as fast as before."""
        batches = [Batch(0, (1,) * 3000), Batch(3000, (LIMIT + 1,))]

        result = measured(batches, OffsetRange("0", 0, 1000))

        assert [(read.span.stop, read.records_per_poll) for read in result.reads] == [(1000, POLL_RECORDS)]


class TestTheMemory:
    """It bounds the bytes that a poll decompresses."""

    @pytest.mark.parametrize(("largest", "records"), [(1, POLL_RECORDS), (LIMIT // 4, 4), (LIMIT, 1), (LIMIT * 9, 1)])
    def test_large_records_are_polled_in_small_numbers(self, largest, records):
        """Five hundred records of ten megabytes do not fit either."""
        assert MEMORY.records_per_poll(largest) == records

    def test_the_reason_has_the_size_the_offset_and_the_memory_to_set(self):
        """A user can act on it."""
        memory = RecordMemory(512 * 2**20, 1)

        text = memory.describe(MeasuredRecord(3, 300 * 2**20), "orders")

        assert "The record at offset 3 of the topic orders has 300 MiB" in text
        assert "give Java 3000 MiB" in text
