"""What a simulated world is like, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from support.simulation.tables import CHANGELOG, UPSERT

from backfill_core.job.controls import ALL, HISTORY


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a world, one by one, instead of by chance: so that a part of it can be left out."""

    commits: tuple[int, ...] = ()
    """Which of the planned commits to the source are made."""

    commands: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    crashes: tuple[int, ...] = ()
    """After which steps the process dies."""

    faults: tuple[int, ...] = ()
    """Which acts fail, of those that may."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a world is like; everything else follows from the seed."""

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
    """The transform leaves rows out."""

    rows_per_s: int | None = None
    verify_final: bool = False
    commit_every: int = 1
    faults: float = 0.0
    """Probability that work, a seal or a look fails in a way that may pass."""

    crashes: float = 0.0
    """Probability of a crash after each step."""

    crash_at: int | None = None
    """The one step after which the process dies."""

    commands: int = 0
    signals: int = 0
    """How often the process is asked to end, without a command."""

    commits: int = 8
    trouble_s: float = 25.0
    """After this moment: no faults, no crashes, no commits, no pause, no limit; the job must come to its end."""

    stubborn: bool = False
    """A killed process leaves its commits in flight: they land unless they are refused."""

    paused: str | None = None
    """What the spec pauses from the first moment: None, `History` or `All`; until a command resumes it."""

    others: float = 0.0
    """Probability that another writer commits to the target while it is compared; thrice at most."""

    vacuums: float = 0.0
    """Probability that files which a seal names are gone when it comes to them."""

    loses: str | None = None
    """What a topic may do besides growing: None, `expire` or `recreate`; a job may end with that, and must not pass over it."""

    checked_fence: bool = True
    """The first seal of an attempt is refused when the target was sealed after the attempt had read its state."""

    script: Script | None = None
    """What happens, where it is not left to chance."""

    @property
    def filters(self) -> bool:
        """Does the transform leave rows out? A changelog has none to leave out."""
        return self.filtered and self.mode != CHANGELOG

    @property
    def proves_key(self) -> bool:
        """Is the key proven? In every other world, so that both ways are walked."""
        return self.mode == UPSERT and self.seed % 2 == 0


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
