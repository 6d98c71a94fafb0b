"""What a spec names, opened and checked before anything is written: target, source, transform, pinned version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from backfill_api.spec.spec import Backfill
from backfill_core import strategies
from backfill_core.errors import BackfillError, SnapshotExpiredError, SourceReplacedError, StateMismatchError
from backfill_core.job.owner import PREFIX, Claim, check_claim
from backfill_core.job.state import JobState, check_same_spec
from backfill_core.plugins import choose
from backfill_core.protocol.strategy import Pinned
from backfill_core.protocol.work import FileRange
from backfill_spark import sinks, sources
from backfill_spark.jvm.death import death, java_died
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.failures import unexplained
from backfill_spark.jvm.session import open_session
from backfill_spark.ports.committer import Committer, StoredState
from backfill_spark.ports.sink import Sink
from backfill_spark.ports.source import PinnedTable, Source
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.verification import check_one_row_a_key
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class OpenedTarget:
    """A target and what it says about the job; enough to know that it is finished."""

    sink: Sink
    committer: Committer
    stored: StoredState
    state: JobState | None
    claim: Claim
    """What the job says of the target."""


@dataclass(frozen=True)
class Opened:
    """Source, target and transform of a spec, checked; nothing was written."""

    source: Source
    target: OpenedTarget
    transform: Transform
    pinned: PinnedTable

    @contextmanager
    def in_our_words(self) -> Iterator[None]:
        """Say of what Spark raises inside which of the three is to blame."""
        try:
            yield
        except JAVA_ERRORS as error:
            raise self.explain(error, doing="a Spark job") from error

    def explain(self, error: Exception, *, doing: str) -> BackfillError:
        """Say in our words what a Spark job met; of what nobody knows, only what may pass is worth another try."""
        # What the sink raises in a row itself looks like what a transform raises.
        known = (
            self.sink.explain_failure(error)
            or self.transform.explain_failure(error)
            or self.source.explain_failure(error)
        )
        return known or unexplained(error, doing=doing)

    def check_one_row_a_key(self, key: tuple[str, ...]) -> None:
        """Prove a key on what the transform makes of the pinned version: the target will hold just that.

        Of a key that the transform drops (no Upsert's) the source is looked at.

        Raises:
            DuplicateKeyError: two rows share a key.
        """
        source = self.source.read(tuple(FileRange(index, 0, rows, rows) for index, rows in enumerate(self.pinned.rows)))
        view = self.transform.apply(source)
        rows = view if set(key) <= set(view.columns) else source
        check_one_row_a_key(rows, key, what=f"version {self.pinned.version} of the source")

    @property
    def sink(self) -> Sink:
        """The target."""
        return self.target.sink

    @property
    def committer(self) -> Committer:
        """What commits to it."""
        return self.target.committer

    @property
    def stored(self) -> StoredState:
        """What it says about the job."""
        return self.target.stored

    @property
    def state(self) -> JobState | None:
        """The job's state in it; None before the first seal."""
        return self.target.state


@contextmanager
def session_for(
    backfill: Backfill, settings: DriverSettings, *, app_name: str, given: SparkSession | None
) -> Iterator[SparkSession]:
    """Give the session that there is, or one of our own, which is stopped afterwards: local, or the cluster's with the spec's conf."""
    if given is not None:
        yield given
        return
    cluster = settings.master == "cluster"
    session = open_session(
        app_name=app_name,
        cores=settings.cores,
        memory=settings.memory,
        jars_dir=settings.jars_dir,
        java_home=settings.java_home,
        cluster=cluster,
        conf=backfill.spec.spark.conf if cluster else None,
        spec_conf=None if cluster else backfill.spec.spark.conf,
    )
    try:
        yield session
    except (Py4JError, ConnectionError) as error:
        raise (death(error) if java_died(session, error) else error) from error
    finally:
        try:
            session.stop()
        except (Py4JError, ConnectionError) as error:
            # Nobody stops what has ended; how it ended is said already.
            if not java_died(session, error):
                raise


def open_target(spark: SparkSession, backfill: Backfill) -> OpenedTarget:
    """Look at the target and the state in it; the source may be gone.

    Raises:
        BackfillError: it cannot be read, holds the state of another spec, or is filled by another job.
    """
    spec = backfill.spec
    sink = choose(sinks.discover(), spec.target.type, "spec.target.type").open(spark, backfill)
    domain = f"{PREFIX}{sink.job_hash}"
    committer = sink.committer(app_id=f"backfill-{sink.job_hash}", domain=domain)
    stored = committer.read_state()
    state = None if stored.text is None else JobState.decode(stored.text)
    if state is not None:
        try:
            # A state without fields is of an earlier release.
            same = backfill.spec_hash if state.spec_fields else backfill.spec_hash_before_conf
            check_same_spec(state, job_id=backfill.job_id, spec_hash=same, spec_fields=backfill.spec_fields)
        except StateMismatchError:
            # A spec that was changed may have been changed to one that could never run: a typing error is said first.
            _read_what_is_named(spark, backfill)
            raise
    shares = spec.target.params.existing_rows == "Keep"
    claim = Claim(domain, backfill.job_id, shares, begins=state is None)
    if state is None or not state.finished:
        check_claim(claim, stored.claims, path=sink.path)
    return OpenedTarget(sink, committer, stored, state, claim)


def _read_what_is_named(spark: SparkSession, backfill: Backfill) -> None:
    """Open the source and check the transform.

    Raises:
        BackfillError: the spec names what is not there, or what no row can be made of.
    """
    spec = backfill.spec
    source = choose(sources.discover(), spec.source.type, "spec.source.type").open(spark, spec.source)
    source.pin(None)
    transform = Transform(tuple(spec.transform.select) or None, spec.transform.where)
    transform.check(source.read(()), changelog=spec.target.params.write_mode == "Changelog")


def open_job(spark: SparkSession, backfill: Backfill, target: OpenedTarget | None = None) -> Opened:
    """Open and check everything that a spec names, without writing anything.

    Args:
        spark: The session.
        backfill: The job.
        target: When it was opened already.

    Raises:
        BackfillError: whatever is wrong, each with its own reason.
    """
    spec = backfill.spec
    choose(strategies.discover(), spec.strategy.type, "spec.strategy.type")
    source = choose(sources.discover(), spec.source.type, "spec.source.type").open(spark, spec.source)
    target = target or open_target(spark, backfill)
    transform = Transform(tuple(spec.transform.select) or None, spec.transform.where)
    pinned = _pin(source, target.state, spec.source.params.start_version)
    transform.check(source.read(()), changelog=spec.target.params.write_mode == "Changelog")
    if target.state is None:
        transform.check_sample(source.read(_some_file(pinned)))
    schema = transform.output_schema(spark, pinned.schema)
    target.sink.check(schema, source_path=source.path, has_state=target.state is not None)
    if target.stored.table_version >= 0:
        target.committer.check()
    return Opened(source, target, transform, pinned)


def _some_file(pinned: PinnedTable) -> tuple[FileRange, ...]:
    """Return the first file with rows, whole; nothing of an empty table."""
    return next(((FileRange(index, 0, rows, rows),) for index, rows in enumerate(pinned.rows) if rows), ())


def _pin(source: Source, state: JobState | None, asked: int | None) -> PinnedTable:
    """Pin the version that the snapshot is read from; once it was read, the one consumed last will do.

    Raises:
        SnapshotExpiredError: neither is there.
        SourceReplacedError: another table is at the path.
    """
    if state is None:
        return source.pin(asked)
    try:
        return source.pin(state.progress["version"])
    except SnapshotExpiredError:
        if state.consumed in (None, state.progress["version"]):
            raise
        pinned = source.pin(state.consumed)
    if pinned.table_id != state.progress["tableId"]:
        raise SourceReplacedError(
            f"{source.path} is another table than when version {state.progress['version']} was pinned.",
            hint="It was dropped and made again: give the job another jobId and another target.",
        )
    return pinned


def as_pinned(pinned: PinnedTable, state: JobState | None) -> Pinned:
    """Return the row index of a job; of a version that is gone, all of which was read, as the state remembers it."""
    if state is None or pinned.version == state.progress["version"]:
        return Pinned(
            version=pinned.version,
            timestamp_ms=pinned.timestamp_ms,
            table_id=pinned.table_id,
            fingerprint=pinned.fingerprint,
            rows=tuple(pinned.rows),
            rows_live=pinned.live_rows,
        )
    stored = state.progress
    return Pinned(
        version=stored["version"],
        timestamp_ms=pinned.timestamp_ms,
        table_id=stored["tableId"],
        fingerprint=stored["fingerprint"],
        rows=(stored["rows"],),
        rows_live=stored.get("rowsLive", stored["rowsRead"]),
    )
