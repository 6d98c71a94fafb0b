"""Interface of a strategy's model for the simulator: only a model interprets the strategy's stored form and work.

A model states the promises of a stored state. It is written against the strategy's documentation and shares no code with it.
The simulator finds it as `MODEL` in `models/<strategy>.py`.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from support.simulation.law import Broken
from support.simulation.region import Region
from support.simulation.scenario import Scenario
from support.simulation.tables import Row

from backfill_api.spec.spec import BackfillSpec
from backfill_api.spec.strategies import Strategy as StrategySpec
from backfill_api.spec.transforms.filling import fills
from backfill_core import strategies
from backfill_core.errors import BackfillError
from backfill_core.job.state import JobState
from backfill_core.protocol.events import Event
from backfill_core.protocol.strategy import Strategy, StrategyPlugin
from backfill_core.protocol.work import Result, StagedFile, Verify, Work

Progress = Mapping[str, Any]
"""The strategy's part of a stored state: the JSON value that a user could read."""


@cache
def installed() -> Mapping[str, StrategyPlugin[Any]]:
    """Return the strategies of this process; a search at each commit would take a tenth of a simulation."""
    return strategies.discover()


# ------------------------------------------------------------------ effects of work
@dataclass(frozen=True, slots=True)
class Staging:
    """The work stages rows: a file holds rows of one segment only."""

    segments: tuple[list[Row], ...]
    answer: Callable[[tuple[StagedFile, ...]], Result]
    bad: list[Row] = field(default_factory=list)
    """Records that cannot be parsed; they are staged for a separate table."""


@dataclass(frozen=True, slots=True)
class Merging:
    """The work itself commits the last image of each key; `None` removes the key."""

    txn: int
    net: Mapping[Any, Any]
    answer: Callable[[int], Result]


@dataclass(frozen=True, slots=True)
class Filing:
    """The work stages files under names that it chooses, and may remove files of the target."""

    act: Callable[[Mapping[str, Sequence[Row]], str], Result]
    """Takes the target's files, and a folder for new ones. The handle of a staged file holds its rows."""


Effect = Staging | Merging | Filing


@dataclass(frozen=True, slots=True)
class Cost:
    """Rows of one piece of history work: those charged to its limit, and those read."""

    charged: int
    read: int


@dataclass(frozen=True, slots=True)
class Promise:
    """Required rows of a target, and optional ones: records that compaction removed, if a reader came before it."""

    rows: Counter[Row]
    optional: Counter[Row] = field(default_factory=Counter)

    def missing(self, actual: Counter[Row]) -> list[Row]:
        """Return the missing rows, in order."""
        return sorted((self.rows - actual).elements())

    def surplus(self, actual: Counter[Row]) -> list[Row]:
        """Return the surplus rows, in order."""
        return sorted((actual - self.rows - self.optional).elements())

    def kept_by(self, actual: Counter[Row]) -> bool:
        """Return whether the rows keep the promise."""
        return not self.missing(actual) and not self.surplus(actual)


@dataclass(frozen=True, slots=True)
class Compared:
    """Version of the source with which a target is compared, and whether the target is complete."""

    version: int
    complete: bool
    reached: str | None = None
    """SQL condition of the rows of that version that the target holds. `None` if it holds any rows, as many as the state counts."""


# ------------------------------------------------------------------ one attempt
class Opened(Protocol):
    """One attempt's strategy, and the effects of its work on the world."""

    strategy: Strategy

    def effect(self, work: Work) -> Effect:
        """Return the effect of a piece of history or change work.

        Raises:
            BackfillError: the source lost records that the work reads.
        """

    def wanted(self, work: Verify) -> Promise:
        """Return the rows with which a receipt compares the target."""


# ------------------------------------------------------------------ one world
class Model(Protocol):
    """The promises of one strategy in one world; it also owns the world's source."""

    MODES: ClassVar[tuple[str, ...]]
    """The ways to write to a target; a world draws one of them."""

    WORTH: ClassVar[Mapping[str, int]]
    """Least number of times that all seeds together must meet each situation."""

    IN_FLIGHT_MAX: ClassVar[int]
    """Maximum number of concurrent pieces of history work."""

    AHEAD_RATE: ClassVar[int | None]
    """Limit in rows per second from which on history is charged when it is sealed; `None` for never."""

    FIXED_WIDTH_MODES: ClassVar[frozenset[str]]
    """Modes in which a job refuses to change its width."""

    chunk_rows: int | None
    """`chunkRows` of the spec; `None` for a strategy without it."""

    KNOBS: ClassVar[frozenset[str]]
    """Those of `rescaled`, `stacked`, `mixed` and `hidden` that apply to the strategy."""

    def __init__(self, given: Scenario) -> None:
        """Make the source."""

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """Return the spec from which the strategy is built; the simulation ignores its source and target."""

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """Return the version with which a real target is compared."""

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return how often the source met each situation; `WORTH` counts them."""

    def change_source(self) -> str | None:
        """Commit to the source; return a description for a reader of the story."""

    def poll(self, wall_ms: int) -> Event:
        """Poll the source."""

    def lost(self, error: BackfillError) -> bool:
        """Return whether a job may end with this error, because the source lost unread records."""

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> Opened:
        """Open an attempt; `txn` is the newest transaction version in the target.

        Raises:
            BackfillError: the source lost records that the job has not read.
        """

    # -------------------------------------------------------------- a stored state
    def mixed(self) -> Progress:
        """Return a state whose vnodes are at different positions, for a new world."""

    def starts_over(self, progress: Progress) -> bool:
        """Return whether an attempt that reads this state removes its rows and restarts."""

    def expected(self, progress: Progress) -> Promise:
        """Return the rows that a target with this state must hold: the core invariant."""

    def quarantined(self, progress: Progress) -> Promise:
        """Return the bad records that their table must hold once a commit with this state is answered."""

    def held(self, progress: Progress) -> Region:
        """Return the positions of the source that the target holds; a later state has them all."""

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Check the rules about two successive states that the regions do not cover."""

    def check_end(self, progress: Progress) -> None:
        """Check the state of a finished job against its strategy's last phase."""

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """Check a proof of the key, after `merges` MERGEs, against the state of its target."""

    # -------------------------------------------------------------- work
    def taken(self, work: Work) -> Region:
        """Return the positions that a piece of history or change work brings."""

    def cost(self, progress: Progress, work: Work) -> Cost:
        """Return the number of rows of a piece of history work."""

    def txn_of(self, work: Work) -> int | None:
        """Return the transaction version under which the work commits; `None` if it only stages."""

    def check_start(self, progress: Progress, work: Work) -> None:
        """Check the start of work against the newest state."""

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """Check a MERGE against the state that announced it; return the target's rows after it."""


# ------------------------------------------------------------------ discovery
OF_LIVE_TABLES = {name for name, variant in StrategySpec.VARIANTS.items() if fills(variant)}
"""Strategies whose target is the source: other writers commit to it at any time, so they have worlds of their own (tests/core/in_place)."""

FOLDER = Path(__file__).parent / "models"


def file_of(strategy: str) -> str:
    """Return the name of a strategy's file, without its ending: `SourceSplits` is `source_splits`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in strategy).lstrip("_")


def modelled() -> set[str]:
    """Return the strategies that have a model: also those that are built and not offered yet, and one of the tests."""
    return {"".join(word.capitalize() for word in file.stem.split("_")) for file in FOLDER.glob("[a-z]*.py")}


@cache
def model_of(strategy: str) -> type[Model]:
    """Return the model of a strategy.

    Raises:
        Broken: it has none.
    """
    name = file_of(strategy)
    if not (FOLDER / f"{name}.py").exists():
        raise Broken(f"strategy {strategy} has no model: add MODEL in tests/support/simulation/models/{name}.py")
    model: type[Model] = importlib.import_module(f"support.simulation.models.{name}").MODEL
    return model
