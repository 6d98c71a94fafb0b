"""Rows that no reader of the simulated target sees yet, because they become visible together (ADR 0041)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from support.simulation.law import demand
from support.simulation.scenario import Scenario
from support.simulation.tables import Commit, Row, Target

from backfill_core.job.publishing import is_audited
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.publication import Publish
from backfill_core.protocol.work import StagedFile, Verify


def rows_of(files: Sequence[StagedFile]) -> Mapping[str, Sequence[Row]]:
    """Return the rows of staged files, by path."""
    handles: list[Any] = [file.handle for file in files]
    return {file.path: handle for file, handle in zip(files, handles, strict=True)}


def visible(target: Target, action: Seal) -> Mapping[str, Sequence[Row]]:
    """Return the rows that a commit makes visible, by file; write the manifest of files that it does not."""
    if action.manifest is not None:
        target.write_manifest(action.manifest, action.files)
        return {}
    return rows_of(action.files if action.publishes is None else target.staged(action.publishes))


def compared_rows(target: Target, work: Verify) -> Counter[Row]:
    """Return the target's rows that a receipt compares: those of a version, or those that are staged."""
    actual = target.commits[work.target_version].rows
    if work.staged is None:
        return actual
    demand(not actual, "rows are visible before they are published")
    return Counter(row for rows in rows_of(target.staged(work.staged)).values() for row in rows)


class PublicationOracle:
    """Judges which rows a commit shows, and which it hides."""

    def __init__(self, target: Target, given: Scenario) -> None:
        """Watch a target from its beginning."""
        self._target, self._given = target, given
        self.published = self.parts = 0
        """Seals since the rows became visible together, and the most parts of a manifest."""

    def hidden(self, state: JobState, commit: Commit) -> Counter[Row]:
        """Return the rows that the state names and no reader sees; they become visible together, and when the spec says it."""
        publication = state.publication
        demand((publication is not None) == self._given.hidden, "the state does not tell whether rows are visible")
        if publication is None or publication.published:
            first = not self.published and publication is not None
            if first and self._given.publish is Publish.WHEN_VERIFIED:
                demand(is_audited(state.receipt), "rows became visible before they were verified")
            self.published += publication is not None
            return Counter()
        demand(not commit.rows, "rows are visible before all of them are there")
        demand(not self.published, "a published job hides rows")
        staged = rows_of(self._target.staged(publication.parts))
        self.parts = max(self.parts, len(publication.parts))
        return Counter(row for rows in staged.values() for row in rows)
