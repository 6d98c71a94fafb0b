"""Common parts of the models of strategies that read a topic: the topic, and its rows in a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from support.simulation.law import demand
from support.simulation.model import Compared, Progress, Promise
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import APPEND, Row
from support.simulation.topic import Span, Topic
from support.tables.jobs import job

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import BackfillError
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.events import Event, Head, SourcePolled
from backfill_core.protocol.work import Work


class TopicModel:
    """A model whose source is a topic; its subclass defines the promises of a stored state."""

    MODES: ClassVar[tuple[str, ...]] = (APPEND,)
    WORTH: ClassVar[Mapping[str, int]] = {
        "crashes": 100,
        "stops": 30,
        "batches": 200,
        "receipts": 60,
        "seals": 1000,
        "splits": 500,
        "acks": 400,
        "began_paused": 40,
        "compacted": 100,
        "partitions": 400,
        "quarantined": 400,
    }
    IN_FLIGHT_MAX: ClassVar[int] = 2
    FIXED_WIDTH_MODES: ClassVar[frozenset[str]] = frozenset()
    chunk_rows: int | None = None
    KNOBS: ClassVar[frozenset[str]] = frozenset({"rescaled"})
    AHEAD_RATE: ClassVar[int | None] = None

    def __init__(self, given: Scenario) -> None:
        """Make the source."""
        self.topic = Topic(given.seed, rows=given.rows, sparse=given.sparse, filtered=given.filters)

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """Return a spec without fields that the strategy reads."""
        where = {"transform": {"where": "value > 0"}} if given.filters else {}
        return job("/source", "/target", target={"writeMode": given.mode}, **where).spec

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """Raise an error: it has no real target."""
        raise NotImplementedError

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return the numbers of compacted records and of partitions."""
        return {"compacted": self.topic.compacted, "partitions": len(self.topic.partitions)}

    def change_source(self) -> str:
        """See `Model`."""
        self.topic.commit()
        return f"the partitions end at {self.offsets}"

    def poll(self, wall_ms: int) -> Event:
        """See `Model`."""
        return SourcePolled(Head(self.offsets, wall_ms, self.source_id))

    def lost(self, error: BackfillError) -> bool:
        """Return false: a topic that only grows loses nothing."""
        return False

    @property
    def source_id(self) -> str:
        """Return the identity of the topic."""
        return ""

    @property
    def offsets(self) -> dict[str, int]:
        """Return the newest position, in the strategy's form."""
        return {str(number): high for number, high in self.topic.highs.items()}

    # -------------------------------------------------------------- a stored state
    @staticmethod
    def spans(progress: Progress) -> Iterable[Span]:
        """Return the offsets that a target with a state holds."""
        raise NotImplementedError

    def starts_over(self, progress: Progress) -> bool:
        """Return false: each state is continued."""
        return False

    def expected(self, progress: Progress) -> Promise:
        """Return the records at the held offsets; compaction may have come before the reader or after it."""
        return self.at(self.spans(progress))

    def quarantined(self, progress: Progress) -> Promise:
        """Return the unparsable records at the same offsets."""
        return Promise(*self.topic.view(self.spans(progress), bad=True))

    def at(self, spans: Iterable[Span]) -> Promise:
        """Return the records at some offsets."""
        return Promise(*self.topic.view(spans))

    def held(self, progress: Progress) -> Region:
        """Return the same offsets as a region."""
        return Region.of(*((f"partition {number}", start, stop) for number, start, stop in self.spans(progress)))

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """Fail: an append target has no key."""
        demand(False, "the key of a topic was proven")

    def mixed(self) -> Progress:
        """Raise an error: there is only one position."""
        raise NotImplementedError

    # -------------------------------------------------------------- work
    def read(self, ranges: Iterable[OffsetRange]) -> list[Row]:
        """Return the current records of some ranges."""
        return [row for span in ranges for row in self.topic.read(int(span.partition), span.start, span.stop)]

    def bad(self, ranges: Iterable[OffsetRange]) -> list[Row]:
        """Return those that cannot be parsed."""
        return [row for span in ranges for row in self.topic.bad(int(span.partition), span.start, span.stop)]

    @staticmethod
    def region(ranges: Iterable[OffsetRange]) -> Region:
        """Return some ranges as a region."""
        return Region.of(*((f"partition {span.partition}", span.start, span.stop) for span in ranges))

    def txn_of(self, work: Work) -> int | None:
        """Return `None`: the work only stages."""
        return None

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """Raise an error: records are only appended."""
        raise NotImplementedError
