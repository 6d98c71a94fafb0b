"""Decides whether a job may remove its target: the job created the table, no other writer changed it, and its source still has the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from backfill_api.spec.spec import BackfillSpec
from backfill_core.command_errors import NotDroppableError
from backfill_core.errors import ForeignCommit

SourceState = Literal["Open", "Fenced", "Missing", "Unknown"]
"""`Unknown` if the source is not a table with a log."""

LOG: Final = "_delta_log"
_PARTS: Final = re.compile(r"_delta_log|_change_data|[^=]+=.*|.*\.parquet|deletion_vector_.*\.bin|\..*\.crc")
"""Names in the folder of a table: its log, its change feed, partitions and files. A random prefix of files looks like any folder."""

NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class TargetEvidence:
    """Facts about a target, from its log and its folder."""

    path: str
    oldest: int | None
    """Oldest version with a commit in the log; `None` if there is none."""

    others: tuple[ForeignCommit, ...]
    """Commits of other writers that changed rows or columns."""

    other_jobs: tuple[str, ...]
    """Domains of the states of other jobs."""

    entries: tuple[str, ...]
    """Names in the folder of the table."""

    append_only: bool = False


def check_droppable(
    spec: BackfillSpec, evidence: TargetEvidence, source: SourceState, *, created: bool, staging: str
) -> None:
    """Reject the removal of a target that may have rows which exist nowhere else, or which other writers need.

    Args:
        spec: The job.
        evidence: The target.
        source: The source.
        created: True if the job's state records that the table did not exist before the job.
        staging: Name of the folder for the job's files.

    Raises:
        NotDroppableError: names the first reason; nothing was removed.
    """
    target = _Target(spec, evidence, source, created, staging)
    for reason, hint in target.obstacles():
        raise NotDroppableError(f"{evidence.path} stays: {reason}.", hint=hint)


@dataclass(frozen=True, slots=True)
class _Target:
    spec: BackfillSpec
    evidence: TargetEvidence
    source: SourceState
    created: bool
    staging: str

    def obstacles(self) -> Iterator[tuple[str, str]]:
        """Yield each reason against the removal, with the remedy."""
        yield from self._of_spec()
        yield from self._of_source()
        yield from self._of_log()
        unknown = sorted(name for name in self.evidence.entries if not self._is_part(name))
        if unknown:
            yield (
                f"its folder has entries that are not a part of the table: {_named(unknown)}",
                "Move them elsewhere, then run the command again.",
            )

    def _of_spec(self) -> Iterator[tuple[str, str]]:
        params, member = self.spec.target.params, f"spec.target.{self.spec.target.member}"
        by_hand = "Use `backfill release`, and delete the rows of the job by a query."
        if params.existing_rows == "Keep":
            yield f"{member}.existingRows is Keep, so it may have rows of other writers", by_hand
        if params.scope is not None:
            yield f"{member}.scope is set, so the rows outside of the scope are not from this job", by_hand
        if params.catalog_name is not None:
            hint = f"Use `backfill release`, then DROP TABLE {params.catalog_name}."
            yield f"it has a name in a catalog ({member}.table), which would point to nothing", hint

    def _of_source(self) -> Iterator[tuple[str, str]]:
        if self.source == "Missing":
            hint = "Restore the source, or remove the folder of the target yourself."
            yield "the source does not exist, so the target may be the only copy of the rows", hint
        if self.source == "Fenced":
            hint = "Lift the fence with `backfill unfence` if no reader or writer uses the target."
            yield "the source is fenced by this job, so readers and writers may use the target already", hint

    def _of_log(self) -> Iterator[tuple[str, str]]:
        evidence = self.evidence
        if evidence.oldest != 0:
            began = "has no commit" if evidence.oldest is None else f"begins at version {evidence.oldest}"
            hint = "Remove the folder of the target yourself if it is not needed."
            yield f"its log {began}, so it is unknown who created the table and wrote to it", hint
        if not self.created:
            hint = "Use `backfill release`; the table belongs to its creator."
            yield "the job's state does not record that the job created the table", hint
        if evidence.others:
            hint = "Use `backfill release`; the table has rows that are in no other place."
            yield f"other writers wrote to it: {_named(map(str, evidence.others))}", hint
        if evidence.other_jobs:
            yield f"it has the state of other jobs: {_named(evidence.other_jobs)}", "Release or drop these jobs first."
        if evidence.append_only:
            hint = "Unset the property: ALTER TABLE … UNSET TBLPROPERTIES ('delta.appendOnly')."
            yield "the property delta.appendOnly forbids the removal of rows", hint

    def _is_part(self, name: str) -> bool:
        return name == self.staging or _PARTS.fullmatch(name) is not None


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return f"{', '.join(every[:NAMED_MAX])}{more}"
