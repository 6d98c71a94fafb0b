"""What the simulator asks of a strategy's model: the one place where its stored form and its work are understood.

A model states what a stored state promises. It is written against the strategy's documentation and shares no code with
it. It stands in `models/<strategy>.py` as `MODEL`, and is found because it is there.
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
from backfill_core.errors import BackfillError
from backfill_core.job.state import JobState
from backfill_core.protocol.events import Event
from backfill_core.protocol.strategy import Strategy
from backfill_core.protocol.work import Result, StagedFile, Verify, Work

Progress = Mapping[str, Any]
"""The strategy's part of a stored state: the JSON value that a user could read."""


# ------------------------------------------------------------------ what work does
@dataclass(frozen=True, slots=True)
class Staging:
    """The work stages rows: a file holds rows of one segment only."""

    segments: tuple[list[Row], ...]
    answer: Callable[[tuple[StagedFile, ...]], Result]
    bad: list[Row] = field(default_factory=list)
    """Records that cannot be parsed; they are staged for a table of their own."""


@dataclass(frozen=True, slots=True)
class Merging:
    """The work commits the last image of each key itself; None removes the key."""

    txn: int
    net: Mapping[Any, Any]
    answer: Callable[[int], Result]


@dataclass(frozen=True, slots=True)
class Filing:
    """The work stages files under names of its own, and may say which ones of the target go."""

    act: Callable[[Mapping[str, Sequence[Row]], str], Result]
    """Given the target's files, and a folder for new ones. The handle of a staged file holds its rows."""


Effect = Staging | Merging | Filing


@dataclass(frozen=True, slots=True)
class Cost:
    """Rows of one piece of history work: as its limit was charged, and as it reads them."""

    charged: int
    read: int


@dataclass(frozen=True, slots=True)
class Promise:
    """What a target must hold, and what it may hold besides: what compaction removed, for a reader that came before."""

    rows: Counter[Row]
    optional: Counter[Row] = field(default_factory=Counter)

    def missing(self, found: Counter[Row]) -> list[Row]:
        """Return what is not there, in order."""
        return sorted((self.rows - found).elements())

    def surplus(self, found: Counter[Row]) -> list[Row]:
        """Return what is there too often, in order."""
        return sorted((found - self.rows - self.optional).elements())

    def kept_by(self, found: Counter[Row]) -> bool:
        """Are these the rows?"""
        return not self.missing(found) and not self.surplus(found)


@dataclass(frozen=True, slots=True)
class Compared:
    """What a target with some state is compared with: a version of the source, and is all of it there?"""

    version: int
    complete: bool
    reached: str | None = None
    """SQL: which rows of that version are there, all of them. None: as many as the state counts, whichever they are."""


# ------------------------------------------------------------------ one attempt
class Opened(Protocol):
    """One attempt's strategy, and what its work does to the world."""

    strategy: Strategy

    def effect(self, work: Work) -> Effect:
        """Return what a piece of history or change work does.

        Raises:
            BackfillError: the source lost what it reads.
        """

    def wanted(self, work: Verify) -> Promise:
        """Return what a receipt compares the target with."""


# ------------------------------------------------------------------ one world
class Model(Protocol):
    """The promises of one strategy in one world; it also owns the world's source."""

    MODES: ClassVar[tuple[str, ...]]
    """The ways to write to a target; a world draws one of them."""

    WORTH: ClassVar[Mapping[str, int]]
    """How often all seeds together must meet a situation, at least."""

    IN_FLIGHT_MAX: ClassVar[int]
    """Pieces of history work that may be under way together."""

    AHEAD_RATE: ClassVar[int | None]
    """Limit in rows per second from which on history is charged when it is sealed; None: never."""

    KNOBS: ClassVar[frozenset[str]]
    """Those of `rescaled`, `stacked` and `mixed` that mean something to the strategy."""

    def __init__(self, given: Scenario) -> None:
        """Make the source."""

    @staticmethod
    def spec(given: Scenario) -> BackfillSpec:
        """Return what the strategy is built from; source and target have no place in the simulation."""

    @staticmethod
    def compared(progress: Progress) -> Compared:
        """Return what a real target is compared with."""

    # -------------------------------------------------------------- the source
    @property
    def met(self) -> Mapping[str, int]:
        """Return how often the source came into which situation; `WORTH` counts them."""

    def change_source(self) -> str | None:
        """Commit something to the source; say what, for a reader of the story."""

    def poll(self, wall_ms: int) -> Event:
        """Look at the source."""

    def lost(self, error: BackfillError) -> bool:
        """May a job end with this, because the source lost what it had not read?"""

    def open(self, spec: BackfillSpec, stored: JobState | None, txn: int | None, wall_ms: int) -> Opened:
        """Open an attempt; `txn` is the newest transaction version in the target.

        Raises:
            BackfillError: the source lost what the job has not read.
        """

    # -------------------------------------------------------------- a stored state
    def mixed(self) -> Progress:
        """Return a state whose vnodes are at different positions, of a world that has just been made."""

    def starts_over(self, progress: Progress) -> bool:
        """Does an attempt that finds this state take its rows out, and begin anew?"""

    def expected(self, progress: Progress) -> Promise:
        """Return the rows that a target with this state must hold: the core invariant."""

    def quarantined(self, progress: Progress) -> Promise:
        """Return the bad records that must be in their own table once a commit with this state is answered."""

    def held(self, progress: Progress) -> Region:
        """Return the positions of the source that the target holds; a later state has them all."""

    def check_forward(self, before: Progress, after: Progress) -> None:
        """Hold two successive states to what the regions do not say."""

    def check_end(self, progress: Progress) -> None:
        """Hold the state of a finished job to its strategy's last phase."""

    def check_key_proof(self, progress: Progress, merges: int) -> None:
        """Hold a proof of the key, after so many MERGEs, to the state of its target."""

    # -------------------------------------------------------------- work
    def taken(self, work: Work) -> Region:
        """Return the positions that a piece of history or change work brings."""

    def cost(self, progress: Progress, work: Work) -> Cost:
        """Return how many rows a piece of history work has."""

    def txn_of(self, work: Work) -> int | None:
        """Return the transaction version under which the work commits; None: it only stages."""

    def check_start(self, progress: Progress, work: Work) -> None:
        """Hold the start of work to the newest state."""

    def check_merge(self, progress: Progress, work: Work, txn: int) -> Promise:
        """Hold a MERGE to the state that announced it; return what the target holds after it."""


# ------------------------------------------------------------------ finding them
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
    found: type[Model] = importlib.import_module(f"support.simulation.models.{name}").MODEL
    return found
