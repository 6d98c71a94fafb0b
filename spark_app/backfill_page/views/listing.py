"""View of all jobs: those that need a person first, then by the time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from backfill_api.amounts import counted, show_seconds
from backfill_api.plain_text import printable
from backfill_console.formatting import show_rows
from backfill_page.seen import AllJobsSwitch, Group, JobRow, Listing

GROUPS: Final[dict[Group, tuple[str, str, str]]] = {
    "needs a person": ("✖", "bad", "need a person"),
    "runs": ("▶", "good", "run"),
    "paused": ("‖", "dim", "paused"),
    "waits": ("◌", "warn", "wait"),
    "done": ("✔", "good", "done"),
}
"""Symbol, role and plural of each group. A word always stands next to the symbol."""


@dataclass(frozen=True, slots=True)
class Count:
    """Number of jobs in one group."""

    symbol: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class RowView:
    """One job in the table. An empty string is not shown."""

    key: str
    symbol: str
    role: str
    state: str
    percent: int | None
    rows: str
    rate: str
    lag: str
    eta: str
    why: str


@dataclass(frozen=True, slots=True)
class JobsView:
    """The table of jobs, and their counts."""

    total: str
    counts: tuple[Count, ...]
    rows: tuple[RowView, ...]
    problem: str
    switch: AllJobsSwitch | None
    """The pause of all jobs; `None` if the source has none."""


def namespace_of(key: str) -> str:
    """Return the namespace of a job; empty if its name has none."""
    namespace, slash, _ = key.partition("/")
    return namespace if slash else ""


def namespaces_of(listing: Listing, shown: str) -> tuple[str, ...]:
    """Return the namespaces of a menu: those of all jobs and the shown one; empty if there is no choice."""
    names = {namespace_of(row.key) for row in listing.rows} | {shown}
    names.discard("")
    return tuple(sorted(names)) if len(names) > 1 or shown else ()


def jobs_view(listing: Listing, namespace: str = "") -> JobsView:
    """Return the view of all jobs, or of those of a namespace."""
    if namespace:
        listing = replace(listing, rows=tuple(row for row in listing.rows if namespace_of(row.key) == namespace))
    numbers = Counter(row.group for row in listing.rows)
    counts = tuple(
        Count(symbol, role, f"{numbers[group]:,} {group if numbers[group] == 1 else plural}")
        for group, (symbol, role, plural) in GROUPS.items()
        if numbers[group]
    )
    rows = tuple(map(_row, in_order(listing.rows)))
    switch = listing.switch
    if switch is not None:
        switch = replace(switch, why=printable(switch.why), lack=printable(switch.lack))
    return JobsView(counted(len(rows), "job"), counts, rows, printable(listing.problem), switch)


def in_order(rows: Sequence[JobRow]) -> list[JobRow]:
    """Return the jobs sorted: those that need a person first, then by the time left, then by group and name."""
    groups = list(GROUPS)
    return sorted(
        rows,
        key=lambda row: (
            row.group != "needs a person", row.eta_s is None, row.eta_s or 0, groups.index(row.group), row.key,
        ),
    )  # fmt: skip


def _row(row: JobRow) -> RowView:
    symbol, role, _ = GROUPS[row.group]
    since = "" if row.since_s is None else f" {show_seconds(row.since_s)}"
    return RowView(
        key=row.key,
        symbol=symbol,
        role=role,
        state=printable(row.state) + since,
        percent=row.percent,
        rows=_rows(row),
        rate="" if row.rows_per_second is None else show_rows(row.rows_per_second),
        lag="" if row.lag_s is None else show_seconds(row.lag_s),
        eta="" if row.eta_s is None else show_seconds(row.eta_s),
        why=printable(row.why),
    )


def _rows(row: JobRow) -> str:
    if row.rows_done is None:
        return ""
    return show_rows(row.rows_done) + ("" if not row.rows_total else f" of {show_rows(row.rows_total)}")
