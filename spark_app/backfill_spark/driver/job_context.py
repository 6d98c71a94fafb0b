"""Opens the job of a spec: session, target, source, transform and pinned version. Everything is checked, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from backfill_api.spec.spec import BackfillResource
from backfill_core import strategies
from backfill_core.errors import StateMismatchError, StateMovedError
from backfill_core.job.owner import PREFIX, Claim, check_claim
from backfill_core.job.state import JobState, check_same_spec
from backfill_core.pacing.warm_up import WarmUp, warm_ups
from backfill_core.plugins import choose
from backfill_core.positions.key_scan import KeyScan
from backfill_core.protocol.after_end import progress_after_end
from backfill_core.protocol.epochs import attempt_of, txn_version
from backfill_core.protocol.strategy import (
    Opened,
    PinVersion,
    ReadNewest,
    StartOver,
    StoredProgress,
    Strategy,
    StrategyPlugin,
)
from backfill_core.protocol.work import Position
from backfill_spark import sinks, sources
from backfill_spark.driver.fence import check_not_switched
from backfill_spark.jvm.session_scope import session_scope
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.opening.failures import Side, explained
from backfill_spark.opening.key_scan import key_line
from backfill_spark.opening.shipping import adopt_layout
from backfill_spark.opening.source import PinnedSource, Start, in_order, open_source
from backfill_spark.opening.tables import Tables
from backfill_spark.opening.transform import transform_for, transform_of
from backfill_spark.ports.abilities import ability, check_promises, closing
from backfill_spark.ports.committer import Committer, StoredState
from backfill_spark.ports.sink import KeepsAttempts, Sink, SinkPlugin, SupportsStartOver
from backfill_spark.ports.source import Source, SourcePlugin
from backfill_spark.records.quarantine import open_quarantine
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import WriteMode, write_mode
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKING = "looking at the tables"

CHECK_UNIQUE_ROWS_MAX = 5_000_000
"""Most rows for which the key is proven unique before the start (a few seconds); with more rows, it is proven after the history copy."""


@dataclass(frozen=True)
class Plugins:
    """Plug-ins that a spec chooses."""

    strategy: StrategyPlugin[Any]
    source: SourcePlugin
    sink: SinkPlugin

    @classmethod
    def of(cls, backfill: BackfillResource) -> Self:
        """Return the plug-ins of a spec; raise `InvalidSpecError` if one does not exist."""
        spec = backfill.spec
        return cls(
            choose(strategies.discover(), spec.strategy.type, "spec.strategy.type"),
            choose(sources.discover(), spec.source.type, "spec.source.type"),
            choose(sinks.discover(), spec.target.type, "spec.target.type"),
        )


@dataclass(frozen=True)
class JobContext:
    """A spec with its session and its target, which suffice to read the job's progress. The source may be gone."""

    spark: SparkSession
    backfill: BackfillResource
    plugins: Plugins
    sink: Sink
    committer: Committer
    stored: StoredState
    """The job's state as the target stores it."""

    state: JobState | None
    """The same state, decoded; `None` before the first commit."""

    claim: Claim
    """The job's claim on the target."""

    @classmethod
    @contextmanager
    def open(
        cls,
        backfill: BackfillResource,
        settings: DriverSettings,
        *,
        command: str,
        spark: SparkSession | None = None,
        stop: StopSignal | None = None,
        starting: Callable[[str], None] = lambda _: None,
    ) -> Iterator[JobContext]:
        """Open a session and read the target; the session ends with the block.

        Args:
            backfill: The job.
            settings: Settings of this process.
            command: Names the session: run, plan, verify, status, release.
            spark: A session to use; it stays open.
            stop: A requested stop ends the start.
            starting: Called with each step of the start.

        Raises:
            BackfillError: the target cannot be read, holds the state of another spec, or belongs to another job.
            StoppedEarly: a stop was requested.
        """
        plugins, stop = Plugins.of(backfill), stop or StopSignal()
        name = f"backfill {command} {backfill.job_id}"
        conf = backfill.spec.spark.conf
        with session_scope(conf, settings, app_name=name, given=spark, stop=stop) as session:
            starting(LOOKING)
            with stop.cancels_jobs_of(session):
                context = _look(session, backfill, plugins)
            yield context

    def format_position(self, position: Position | None) -> str:
        """Format a position as the source displays it; empty if there is none."""
        return "" if position is None else self.plugins.source.format_position(position)

    @property
    def existing(self) -> str | None:
        """Location of the target; `None` if no table exists there."""
        return self.sink.path if self.stored.table_version >= 0 else None

    @property
    def progress(self) -> StoredProgress | None:
        """Progress that the strategy stored, decoded by the strategy; `None` before the first commit."""
        return None if self.state is None else self.plugins.strategy.decode(self.state.progress)

    def check_claim(self) -> None:
        """Refuse a target that another job fills; an ended job that continues claims its target again.

        Raises:
            TargetTakenError: the message contains the other job.
        """
        check_claim(self.claim, self.stored.claims, path=self.sink.path)

    def reopened(self) -> JobContext:
        """Read the target again, after a commit of another attempt or when staged files are gone."""
        return _look(self.spark, self.backfill, self.plugins)

    @contextmanager
    def open_job(self, warm_up: Callable[[Collection[WarmUp]], object] = lambda _: None) -> Iterator[OpenedJob]:
        """Open and check everything else that the spec names; connections of the source are closed with the block.

        Args:
            warm_up: Called with the preparations that a run of the job needs, once the source is open and before the checks.

        Raises:
            BackfillError: the first problem; each kind of problem has a separate reason.
        """
        with self.explained("reading the source"):
            source, transform = _source(self.spark, self.backfill, self.plugins)
        with closing(source):
            if self.state is None:
                exists = self.stored.table_version >= 0
                check_not_switched(self.spark, self.backfill, target=self.sink.path, exists=exists)
            yield self._opened(source, transform, warm_up)

    def _opened(
        self, source: Source, transform: Transform, warm_up: Callable[[Collection[WarmUp]], object]
    ) -> OpenedJob:
        spec = self.backfill.spec
        with self.explained("reading the source", source, transform):
            request = self.plugins.strategy.open_request(self.progress)
            start_over = request if isinstance(request, StartOver) else None
            if self.state is not None and self.state.dropped(self.stored.txn_version):
                start_over = StartOver(drop_rows=True)
            if start_over is not None:
                request = self.plugins.strategy.open_request(None)
            opened = open_source(source, request, start=_start(self.spark, self.backfill, self.plugins))
            by_file, rows = isinstance(request, PinVersion), opened.rows
            warm_up(warm_ups(spec.transform.select or (), spec.transform.where, rows=rows, by_file=by_file))
            begins = self.state is None or start_over is not None
            transform = transform_for(spec.transform, opened)
            transform = transform_of(transform, opened, _mode(self.backfill), spec.key, begins=begins)
            opened = in_order(opened, spec.strategy)
            line = key_line(source, spec, begins=self.state is None) if isinstance(request, ReadNewest) else None
            schema = transform.output_schema(self.spark, opened.schema)
        with self.explained("reading the target", self.sink):
            adopt_layout(spec, source, self.sink)
            if start_over is not None and start_over.drop_rows:
                ability(self.sink, SupportsStartOver)
            path = source.path if isinstance(opened, PinnedSource) else None
            self.sink.check(schema, source_path=path, has_state=self.state is not None)
            if self.stored.table_version >= 0:
                self.committer.check()
            quarantine = open_quarantine(self.spark, self.backfill, self.plugins.sink, opened.schema)
            if quarantine is not None:
                quarantine.check(target_path=self.sink.path)
        tables = Tables(
            self.spark, spec, self.plugins.source, source, self.sink, self.committer, transform, opened, quarantine
        )
        return OpenedJob(**vars(self), tables=tables, start_over=start_over, line=line)

    @contextmanager
    def explained(self, doing: str, *sides: Side) -> Iterator[None]:
        """Translate exceptions of the block into a `BackfillError`; the sides explain them in order."""
        with explained(self.spark, doing, *sides):
            yield


@dataclass(frozen=True)
class OpenedJob(JobContext):
    """A job whose source and transform are also open and checked."""

    tables: Tables
    start_over: StartOver | None = None
    """Set if the stored state is not resumed."""

    line: KeyScan | None = None
    """The source's rows in the order of a key; `None` if they are not read by key."""

    @property
    def resumes(self) -> StoredProgress | None:
        """State to resume from; `None` for a new or restarted job."""
        return None if self.start_over is not None else self.progress

    @property
    def attempts_before(self) -> int:
        """Number of the newest attempt, which may be newer than that of the state.

        A released job, and one whose log was cleaned, has no state. A target may be new or restored while the table of bad records is not.
        A transaction in one of them fences a smaller number. The folder of an attempt has files that the tables may name, also if Delta
        has forgotten the transaction.
        """
        quarantine = self.tables.quarantine
        with self.explained("reading the target", self.sink):
            sinks = (self.sink,) if quarantine is None else (self.sink, quarantine.sink)
            staged = [sink.newest_attempt() for sink in sinks if isinstance(sink, KeepsAttempts)]
            bad = None if quarantine is None else quarantine.committer.read_state().txn_version
        own = attempt_of(self.stored.txn_version or 0) if self.state is None else self.state.attempt
        return max(own, attempt_of(bad or 0), *staged)

    @property
    def splits_keys(self) -> bool:
        """True if rows with one key of the target can lie in two ranges, so that no range proves the key."""
        if self.line is None:
            return False
        tables = self.tables
        taken = tables.transform.taken(self.spark, tables.opened.schema)
        key = {name.lower() for name in tables.key}
        kept = {column.lower() for name, column in taken.items() if column is not None and name.lower() in key}
        return not {column.name.lower() for column in self.line.space.order.columns} <= kept

    def emptied(self) -> OpenedJob:
        """Remove the rows of the unfinished job from the target if it starts over; return the job with the state after the removal.

        Raises:
            StateMovedError: another attempt committed first; open the tables again. If the target has no rows, no commit is made, and
                the fence detects the other attempt.
            BackfillError: the target does not allow the removal, or some rows are not from this job.
        """
        state = self.state
        kept = self.backfill.spec.target.params.scope is not None  # no row of such a job is visible before it ends
        if state is None or self.start_over is None or not self.start_over.drop_rows or kept:
            return self
        first = txn_version(state.attempt + 1, 0)
        with self.explained("removing the rows of the earlier attempt", self.sink):
            ability(self.sink, SupportsStartOver).drop_rows(app_id=self.committer.app_id, txn_version=first)
            stored = self.committer.read_state()
        if stored.text != self.stored.text or stored.txn_version not in (first, self.stored.txn_version):
            raise StateMovedError("another attempt of this job committed just now.", hint="Start the job again.")
        return replace(self, stored=stored)

    def strategy(
        self, *, proves_key: bool = False, key_proven: bool = False, decodes: bool = False, continues: bool = False
    ) -> Strategy:
        """Return the job's strategy, resumed from the progress in the target; see `Opened` for the first arguments.

        `continues` is true for an attempt that continues a job after its end.
        """
        opened = Opened(
            self.tables.opened.answer, self.stored.txn_version, proves_key=proves_key, key_proven=key_proven,
            splits_keys=proves_key and self.splits_keys, line=self.line, decodes=decodes,
            committed_ms=None if self.state is None else self.state.committed_ms,
        )  # fmt: skip
        stored = progress_after_end(self.resumes, finished=continues and self.state is not None and self.state.finished)
        return self.plugins.strategy.resume(self.backfill.spec, stored, opened)


def _look(spark: SparkSession, backfill: BackfillResource, plugins: Plugins) -> JobContext:
    """Read the target and the job's state in it."""
    with explained(spark, "reading the target"):
        sink = plugins.sink.open(spark, backfill)
        check_promises(sink, backfill.spec.target.variant.abilities, field="spec.target.type")
        domain = f"{PREFIX}{sink.job_hash}"
        committer = sink.committer(app_id=f"backfill-{sink.job_hash}", domain=domain)
        stored = committer.read_state()
        state = None if stored.text is None else JobState.decode(stored.text)
        if state is not None:
            _check_spec(spark, backfill, plugins, state)
        shares = backfill.spec.target.params.keeps_rows
        columns = frozenset(name.lower() for name in backfill.spec.transform.set)
        shares = shares or bool(columns)
        claim = Claim(domain, backfill.job_id, shares, begins=state is None, columns=columns)
        if state is None or not state.finished:
            check_claim(claim, stored.claims, path=sink.path)
    return JobContext(spark, backfill, plugins, sink, committer, stored, state, claim)


def _check_spec(spark: SparkSession, backfill: BackfillResource, plugins: Plugins, state: JobState) -> None:
    """Reject a state of another spec."""
    try:
        # A state without fields comes from an earlier release.
        same = backfill.spec_hash if state.spec_fields else backfill.spec_hash_before_conf
        check_same_spec(state, job_id=backfill.job_id, spec_hash=same, spec_fields=backfill.spec_fields)
    except StateMismatchError:
        # The changed spec may contain a mistake that could never run; that error is reported first.
        source, transform = _source(spark, backfill, plugins)
        with closing(source):
            opened = open_source(source, plugins.strategy.open_request(None), start=Start())
            transform.check(opened.nothing(), reserved=_mode(backfill).columns)
        raise


def _source(spark: SparkSession, backfill: BackfillResource, plugins: Plugins) -> tuple[Source, Transform]:
    spec = backfill.spec
    source = plugins.source.open(spark, spec.source)
    check_promises(source, spec.source.variant.abilities, field="spec.source.type")
    return source, Transform(tuple(spec.transform.select) or None, spec.transform.where)


def _start(spark: SparkSession, backfill: BackfillResource, plugins: Plugins) -> Start:
    """Return the start of a new job; its version is found out only if it is needed."""
    spec, version_at = backfill.spec.source, plugins.source.version_at
    params, ms = spec.params, spec.params.start_ms
    if ms is None or version_at is None:
        return Start(lambda: params.start_version, params.skips_snapshot)
    return Start(lambda: version_at(spark, spec, ms), params.skips_snapshot)


def _mode(backfill: BackfillResource) -> WriteMode:
    return write_mode(backfill.spec.write_mode)
