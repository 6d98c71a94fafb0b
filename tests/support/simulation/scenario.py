"""Properties of a simulated world, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from support.simulation.tables import CHANGELOG, UPSERT

from backfill_core.job.controls import ALL, HISTORY
from backfill_core.protocol.publication import Publish


@dataclass(frozen=True, slots=True)
class Script:
    """Events of a world, listed instead of drawn by chance, so that some can be left out."""

    commits: tuple[int, ...] = ()
    """Planned commits to the source that are made."""

    commands: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    rescales: tuple[int, ...] = ()
    crashes: tuple[int, ...] = ()
    """Steps after which the process dies."""

    faults: tuple[int, ...] = ()
    """Acts that fail, of those that may."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Properties of a world; everything else follows from the seed."""

    strategy: str
    mode: str
    seed: int = 0
    rows: int = 60
    sparse: bool = False
    """Many positions of the source hold no row."""

    grows_at_end: bool = False
    """Each commit of the source inserts many rows behind the last key."""

    rescaled: bool = False
    """Each attempt has another `maxInFlight`."""

    stacked: bool = False
    """The source is the target of another job."""

    mixed: bool = False
    """The job resumes from a state whose vnodes are at different positions."""

    filtered: bool = False
    """The transform filters rows."""

    rows_per_s: int | None = None
    auto: bool = False
    """The spec has an automatic limit, and every fourth commit or so is slower than its target."""

    verify_final: bool = False
    commit_every: int = 1
    faults: float = 0.0
    """Probability of a transient failure of work, a seal or a poll."""

    crashes: float = 0.0
    """Probability of a crash after each step."""

    crash_at: int | None = None
    """The only step after which the process dies."""

    commands: int = 0
    signals: int = 0
    """Number of requests to end the process, without a command."""

    rescales: int = 0
    """Number of commands that change `maxInFlight`."""

    commits: int = 8
    trouble_s: float = 25.0
    """Time after which there are no faults, no crashes, no commits, no pause, no limit; the job must finish then."""

    stubborn: bool = False
    """A killed process leaves its commits in flight: they land unless they are rejected."""

    paused: str | None = None
    """Initial pause of the spec until a command resumes it: `None`, `History` or `All`."""

    refreshes: int = 0
    """Number of times that the finished job runs again; the source may change before and during each, and faults and crashes come again."""

    others: float = 0.0
    """Probability that another writer commits to the target while it is compared; at most three times."""

    vacuums: float = 0.0
    """Probability that the staged files of a seal are missing when it commits."""

    loses: str | None = None
    """Losses of a topic: `None`, `expire` or `recreate`; a job may fail for them, and must not skip them."""

    checked_fence: bool = True
    """The first seal of an attempt is rejected if the target was sealed after the attempt read its state."""

    hidden: bool = False
    """Rows become visible in one commit: when they are complete, or, in every other world, when they are verified."""

    script: Script | None = None
    """Listed events, instead of drawn ones."""

    @property
    def publish(self) -> Publish:
        """Return when rows become visible."""
        if not self.hidden:
            return Publish.CONTINUOUSLY
        return Publish.WHEN_COMPLETE if self.seed % 3 == 0 else Publish.WHEN_VERIFIED

    @property
    def filters(self) -> bool:
        """Return whether the transform filters rows; a changelog has no filter."""
        return self.filtered and self.mode != CHANGELOG

    @property
    def never_limited(self) -> bool:
        """Return whether history has no limit at any time."""
        return self.rows_per_s is None and not self.commands and not self.auto

    @property
    def proves_key(self) -> bool:
        """Return whether the key is proven: in every other world, so that both paths are covered."""
        return self.mode == UPSERT and self.seed % 2 == 0 and not self.hidden


def scenario(strategy: str, modes: Sequence[str], seed: int) -> Scenario:
    """Return a world drawn from its seed: every mode, layout, fault and command meets every other."""
    rng = Random(seed)
    limited = rng.random() < 0.5
    return Scenario(
        strategy=strategy,
        seed=seed,
        mode=rng.choice(modes),
        rows=rng.choice([0, 1, 12, 60, 150]),
        sparse=not limited and rng.random() < 0.7,
        filtered=rng.random() < 0.3,
        rows_per_s=rng.choice([0, 1, 2, 7, 40]) if limited else None,
        verify_final=rng.random() < 0.4,
        commit_every=rng.choice([1, 1, 1, 2, 5]),
        faults=rng.choice([0.0, 0.02, 0.15]),
        crashes=rng.choice([0.0, 0.005, 0.03]),
        commands=rng.choice([0, 3, 12]),
        commits=rng.choice([0, 3, 15, 40]),
        signals=rng.choice([0, 0, 2]),
        paused=rng.choice([None, None, None, HISTORY, ALL]),
        loses=rng.choice([None, None, None, None, "expire", "recreate"]),
    )
