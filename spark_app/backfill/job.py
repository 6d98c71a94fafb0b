"""A job from Python: built from a file or from values, then planned, run, commanded and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from backfill import display, status
from backfill.control import ACK_WAIT_S, Commands
from backfill.end_of_life import EndOfLife
from backfill.fences import Fences
from backfill.repairs import Repairs
from backfill.run import Driver, Outcome, Run, on_own_thread, run_to_end
from backfill.shown import ShownPlan, ShownReceipt, html_of, job_rows, text_of
from backfill.switching import Switching
from backfill_api.load import SpecError, load_backfill
from backfill_api.names import API_VERSION, KIND
from backfill_api.spec import spec as api
from backfill_api.status.progress import Progress
from backfill_api.status.source_head import SourceHead
from backfill_core.command_errors import NotRunningError
from backfill_core.errors import InvalidSpecError
from backfill_core.positions.start_time import check_comparable
from backfill_spark.control.local_registry import log_file, make_state_folder
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

OF_VALUES = "python"
"""Name of a Backfill that is built from values; its identity is `job_id`."""

Fields = Mapping[str, Any]
"""Fields of a part of the spec, spelled as in YAML."""

OnProgress = Callable[[Progress], None]
OnStep = Callable[[str], None]
"""Called on another thread before each step of a call that takes seconds, with the name of the step."""


def _unheard(_: str) -> None: ...


@dataclass(frozen=True)
class Comparison:
    """Source and target compared without a driver."""

    receipt: ShownReceipt
    rows: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Some rows that differ: the side that has the row, and its columns."""

    source_head: SourceHead | None = None
    """The newest position of the source; `None` if a running driver took the receipt."""


class Backfill(Commands, EndOfLife, Fences, Repairs, Switching):
    """One job: a target that is filled from a source.

    Every method that needs Spark takes the caller's session, which stays unchanged. Without one it opens an embedded
    session, and stops it afterwards. All errors are `BackfillError`s.
    """

    def __init__(
        self,
        *,
        job_id: str,
        source: Fields,
        target: Fields,
        transform: Fields | None = None,
        strategy: Fields | None = None,
        barrier: Fields | None = None,
        throttle: Fields | None = None,
        pause: Fields | None = None,
        desired_state: Literal["Running", "Paused"] | None = None,
        after: Literal["Exit", "Follow"] | None = None,
        verify: Literal["None", "Final", "FinalByRows"] | None = None,
        spark: Fields | None = None,
        settings: DriverSettings | None = None,
    ) -> None:
        """Build a job from values; each is a field of the spec (docs/fields.md), spelled as in YAML.

        A `type` may be left out where one member is given: `source={"delta": {"path": "lake/orders"}}`. Relative paths
        are relative to the working directory.

        Args:
            job_id: Identity of the state that the target keeps.
            source: Where rows come from.
            target: Where rows go.
            transform: What becomes of each row.
            strategy: How it is done.
            barrier: The pace of commits.
            throttle: Limit of the snapshot.
            pause: What `desired_state="Paused"` pauses.
            desired_state: Run, or hold at a barrier.
            after: When caught up: end, or go on applying changes.
            verify: `Final`: take a receipt at the end; `FinalByRows`: compare all of it by rows.
            spark: Settings of Spark, as `{"conf": {…}}`.
            settings: Settings of this process; `None` for those of the environment.

        Raises:
            InvalidSpecError: a field is missing, unknown or wrong; the message names each.
        """
        fields = {
            "jobId": job_id, "source": _typed(source), "target": _typed(target), "transform": transform,
            "strategy": strategy and _typed(strategy), "barrier": barrier, "throttle": throttle, "pause": pause,
            "desiredState": desired_state, "after": after, "verify": verify, "spark": spark,
        }  # fmt: skip
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": OF_VALUES}, "spec": fields}
        self._take(_loaded(document), None, settings)

    @classmethod
    def load(cls, path: str | Path, *, settings: DriverSettings | None = None) -> Self:
        """Load a YAML file; relative paths in it are relative to the file.

        Raises:
            InvalidSpecError: it is not text, or no valid Backfill.
            OSError: it cannot be read.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidSpecError(f"{file} is not text in UTF-8: {error.reason}.") from error
        return cls.of(text, folder=file.resolve().parent, settings=settings)

    @classmethod
    def of(
        cls, document: str | Mapping[str, Any], *, folder: Path | None = None, settings: DriverSettings | None = None
    ) -> Self:
        """Build a job from a whole document: YAML text, or the parsed document.

        Args:
            document: With `apiVersion`, `kind`, `metadata` and `spec`.
            folder: Base of relative paths; `None` for the working directory.
            settings: Settings of this process; `None` for those of the environment.

        Raises:
            InvalidSpecError: it is no valid Backfill.
        """
        made = cls.__new__(cls)
        made._take(_loaded(document), folder, settings)  # noqa: SLF001 - our own class
        return made

    def _take(self, backfill: api.BackfillResource, folder: Path | None, settings: DriverSettings | None) -> None:
        self._backfill = backfill
        self._folder = folder
        self._settings = settings or DriverSettings.from_environ()

    @property
    def job_id(self) -> str:
        """Identity of the state that the target keeps."""
        return self._backfill.job_id

    @property
    def document(self) -> dict[str, Any]:
        """The document that this job was built from, spelled as in YAML; defaults are left out."""
        return self._backfill.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def spec(self) -> api.BackfillSpec:
        """Spec with all defaults."""
        return self._backfill.spec

    @property
    def log_file(self) -> Path:
        """Log file of an embedded Spark for the command line; its folder is created."""
        make_state_folder(self._settings.state_dir)
        return log_file(self._settings.state_dir, self.job_id)

    def check_sql(self) -> str:
        """Parse the SQL of the transform with Spark's own parser; return why that was not possible, or nothing.

        Raises:
            InvalidTransformError: an expression is no SQL; the message names its field.
        """
        if not spark_is_installed():
            return "Spark is not installed"
        from backfill_spark.rows.sql_parser import check_sql

        return check_sql(self.spec.transform, self._settings)

    def __repr__(self) -> str:
        return f"Backfill(job_id={self.job_id!r})"

    def __str__(self) -> str:
        return text_of(job_rows(self.job_id, self.spec))

    def _repr_html_(self) -> str:
        return html_of(job_rows(self.job_id, self.spec), f"job {self.job_id}")

    # ------------------------------------------------------------------ with Spark
    def plan(
        self, spark: SparkSession | None = None, *, check_unique: bool = False, on_step: OnStep = _unheard
    ) -> ShownPlan:
        """Return the plan with the estimated time on this machine; writes nothing to source or target.

        Args:
            spark: The caller's session; `None` for an embedded one.
            check_unique: Prove that the key is unique; reads the key columns once.
            on_step: Called before each step.

        Raises:
            BackfillError: the job could not start; the same error as when it is run.
        """
        from backfill_spark.driver.plan import plan_job

        plan = partial(plan_job, self._backfill, settings=self._settings, check_unique=check_unique, starting=on_step)
        return ShownPlan.of(self._with(spark, plan), self.job_id, self.spec)

    def refreshing(self) -> Self:
        """Return the same job whose runs also continue it after its end, from the position that its target holds.

        A run with nothing new in the source writes nothing.
        """
        made = type(self).__new__(type(self))
        made._take(self._backfill, self._folder, self._settings.model_copy(update={"mode": "refresh"}))  # noqa: SLF001
        return made

    def run(self, spark: SparkSession | None = None, *, on_progress: OnProgress | None = None) -> Outcome:
        """Run one attempt to its end, and return the outcome.

        An interrupt (Ctrl-C, a notebook's stop button) stops it at a barrier; the next run resumes there. A second
        one cancels what runs.

        Args:
            spark: The caller's session; `None` for an embedded one.
            on_progress: Called with the newest progress, about four times a second, on a thread of its own. When it
                raises, the job stops at a barrier and this raises the same. None: a block in a notebook, lines on standard
                error elsewhere.

        Raises:
            BackfillError: it failed.
            KeyboardInterrupt: it was interrupted, and has stopped.
        """
        view = display.view_for(self.job_id, self.spec, on_progress, display.in_lines)
        return run_to_end(lambda: self.shown_by(view, spark))

    def start(self, spark: SparkSession | None = None, *, on_progress: OnProgress | None = None) -> Run:
        """Start one attempt in the background, and return its handle; `wait()` on it raises what `run` raises.

        Args:
            spark: The caller's session, which must live until the attempt has ended; `None` for an embedded one.
            on_progress: As in `run`; `None` shows a block in a notebook, with buttons if ipywidgets is installed, and nothing elsewhere.
        """
        return self.shown_by(display.view_for(self.job_id, self.spec, on_progress, display.unseen, self), spark)

    def verify(self, spark: SparkSession | None = None) -> ShownReceipt:
        """Compare source and target now: through the driver that runs on this machine, else with `compare`.

        A receipt that is not `equal` is no error.

        Raises:
            BackfillError: a table cannot be opened, or the target holds no state of this job.
        """
        check_comparable(self.spec)
        try:
            return self.driver().verify(ACK_WAIT_S)
        except NotRunningError:
            return self.compare(spark).receipt

    def compare(
        self,
        spark: SparkSession | None = None,
        *,
        explain: bool = False,
        by_rows: bool = False,
        statistics: bool = False,
        on_step: OnStep = _unheard,
    ) -> Comparison:
        """Compare source and target without a driver.

        Args:
            spark: The caller's session; `None` for an embedded one.
            explain: Show rows that differ.
            by_rows: Compare rows also of copied files, which are compared by their bytes by default.
            statistics: Compare the statistics of all files of the target with their values; `by_rows` does so, too.
            on_step: Called before each step.

        Raises:
            BackfillError: a table cannot be opened, or the target holds no state of this job.
        """
        from backfill_spark.driver.offline_verify import verify_offline

        compare = partial(
            verify_offline,
            self._backfill,
            settings=self._settings,
            explain=explain,
            by_rows=by_rows,
            statistics=statistics,
            starting=on_step,
        )
        receipt, rows, head = self._with(spark, compare)
        return Comparison(ShownReceipt.of(receipt, head), tuple(rows), head)

    def status(
        self, spark: SparkSession | None = None, *, offline: bool = False, on_step: OnStep = _unheard
    ) -> status.Status:
        """Return the progress of the job: from its driver, otherwise from the target, which takes seconds.

        Args:
            spark: The caller's session, for the target; `None` for an embedded one.
            offline: Ask the target, even while a driver runs.
            on_step: Called before each step without a driver.

        Raises:
            DriverSilentError: the driver runs, and does not answer.
            BackfillError: the target cannot be opened, or its state belongs to another spec.
        """
        try:
            if not offline:
                driver = self.driver()
                return status.of_running(self.job_id, driver.progress(), driver.receipt())
        except NotRunningError:
            pass  # it may also have ended between two questions
        return self._with(spark, partial(status.of_target, self._backfill, self._settings, starting=on_step))

    # ------------------------------------------------------------------ how a run begins
    def shown_by(
        self, view: Callable[[Run], display.Observer], spark: SparkSession | None = None, driver: Driver | None = None
    ) -> Run:
        """Start one attempt as `start` does, with a separate view.

        Args:
            view: Creates the receiver of each progress, on the attempt's thread; it must return at once.
            spark: The caller's session; `None` for an embedded one.
            driver: Runs the attempt; `None` for the real one.
        """
        return Run(self._backfill, self._settings, view=view, session=lambda: self._session(spark), driver=driver)

    def _with(self, spark: SparkSession | None, do: Callable[..., T]) -> T:
        """Call `do` with a session, as `_session` yields it."""
        stop = StopSignal()

        def call() -> T:
            with self._session(spark) as session:
                return do(spark=session, stop=stop)

        return on_own_thread(call, spark, stop)

    @contextmanager
    def _session(self, spark: SparkSession | None) -> Iterator[SparkSession | None]:
        """Yield a new session of the caller's Spark, or `None` for an embedded one; paths are relative to the job's folder."""
        from backfill_spark.delta.location import relative_to
        from backfill_spark.jvm.callers_session import check_no_session, separate_session
        from backfill_spark.jvm.java_process import deaths_named

        with relative_to(self._folder or Path()), deaths_named(spark):
            if spark is None:
                check_no_session()
            yield None if spark is None else separate_session(spark, self.spec.spark.conf)


def spark_is_installed() -> bool:
    """Return whether pyspark can be imported; does not import it."""
    return find_spec("pyspark") is not None


def _typed(part: Fields) -> Fields:
    """Name the type of a part that has one member and no type: `{"delta": …}` is of type Delta."""
    members = [name for name in part if name != "type"]
    if "type" in part or len(members) != 1:
        return part
    return {"type": members[0][:1].upper() + members[0][1:], **part}


def _loaded(document: str | Mapping[str, Any]) -> api.BackfillResource:
    try:
        return load_backfill(document)
    except SpecError as error:
        raise InvalidSpecError(str(error)) from error
