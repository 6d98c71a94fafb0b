"""Jobs as a source reports them, the actions of a user, and the port of a source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from backfill_api.status.plan import Plan
from backfill_console.frame import JobFrame

Group = Literal["needs a person", "runs", "paused", "waits", "done"]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job in the list. An absent value is unknown, and not shown."""

    key: str
    """Id of a local job, or `namespace/name`."""

    group: Group
    state: str
    """State in one or two words."""

    why: str = ""
    percent: int | None = None
    rows_done: int | None = None
    rows_total: int | None = None
    rows_per_second: int | None = None
    lag_s: int | None = None
    eta_s: int | None = None
    since_s: int | None = None
    """Seconds since a pause or suspension began."""

    all_paused: bool = False
    """True if snapshot and changes are paused, also for a job that needs a person."""


@dataclass(frozen=True, slots=True)
class AllJobsSwitch:
    """Pause of all jobs of a source."""

    paused: bool
    why: str = ""
    """The pause in a sentence, with its reason and its author; empty if they are unknown."""

    effect: str = ""
    """Effect on jobs that start later."""

    lack: str = ""
    """Reason why it cannot be changed; empty if it can."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All jobs of a source."""

    rows: tuple[JobRow, ...]
    at: datetime
    """Time at which the source reported them."""

    problem: str = ""
    """Reason why the list is incomplete or old; empty if it is neither."""

    switch: AllJobsSwitch | None = None
    """`None` if the source cannot pause all jobs at once."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command for the user's terminal."""

    purpose: str
    command: str


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a run. An empty or absent value is unknown."""

    outcome: str
    """Outcome in one word, such as Complete, Stopped, Failed or Killed."""

    good: bool
    reason: str = ""
    message: str = ""
    start: str = ""
    """RFC 3339."""

    end: str = ""
    """RFC 3339."""

    receipt: str = ""
    """Verdict of the receipt, if the receipt itself is unknown."""

    rows_done: int | None = None
    next_commands: tuple[NextCommand, ...] = ()


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One job."""

    key: str
    frame: JobFrame
    at: datetime
    """Time at which the source reported it."""

    ended: Ended | None = None
    """`None` while the job runs, waits or is paused."""

    plan: Plan | None = None
    forbidden: str = ""
    """The verb and the resource that the user lacks for actions; empty if all actions are permitted."""

    unavailable: str = ""
    """Reason why no action is possible now; empty if actions are possible."""

    problem: str = ""
    """Parts that cannot be read; empty if all can."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Hold the snapshot; changes continue."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo a pause."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit the snapshot."""

    rows_per_second: int | None
    """`None` removes the limit."""

    for_s: int | None = None
    """Seconds after which the earlier limit applies again; `None` if it stays."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare source and target now."""


Action = Pause | Resume | Throttle | Verify


@dataclass(frozen=True, slots=True)
class PauseAllJobs:
    """Hold the snapshot and the changes of all jobs."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResumeAllJobs:
    """Undo a pause of all jobs."""

    reason: str


AllJobsAction = PauseAllJobs | ResumeAllJobs


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to an action."""

    ok: bool
    text: str
    """The state that holds now with its proof, or the reason of a failure with its remedy."""


class SourceError(Exception):
    """A source cannot be read; the message is for the user."""


class JobSource(Protocol):
    """Jobs of this machine or of a cluster. Methods block, and may be called from any thread."""

    @property
    def place(self) -> str:
        """Name of the machine, or of context and namespace, for the title of the page."""

    def jobs(self) -> Listing:
        """Return all jobs.

        Raises:
            SourceError: they cannot be read.
        """

    def job(self, key: str) -> JobSeen | None:
        """Return one job; `None` if it does not exist.

        Raises:
            SourceError: it cannot be read.
        """

    def watch_jobs(self, over: threading.Event) -> Iterator[Listing]:
        """Yield all jobs now and after changes, at least every few seconds, until `over` is set.

        Raises:
            SourceError: they cannot be read.
        """

    def watch_job(self, key: str, over: threading.Event) -> Iterator[JobSeen]:
        """Yield one job now and after changes, at least every few seconds, until `over` is set or it is gone.

        Raises:
            SourceError: it cannot be read.
        """

    def act_on_all(self, action: AllJobsAction) -> Answer:
        """Send an action to all jobs, and return the answer once it is in force, refused, or takes too long."""

    def act(self, key: str, action: Action) -> Answer:
        """Send an action, and return the answer once it is in force, refused, or takes too long."""
