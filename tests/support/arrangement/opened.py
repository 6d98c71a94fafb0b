"""One attempt of arrangement backfill in a simulated world: the effects of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.arrangement.arranged import EVERYTHING, Reach
from support.simulation.batch_parts import BY_KEY, cut, in_part
from support.simulation.model import Effect, Filing, Merging, Promise, Staging
from support.simulation.tables import APPEND, CHANGELOG, UPSERT
from support.simulation.versions import DELETE, INSERT, UPDATE, Change

from backfill_core.protocol.strategy import Strategy
from backfill_core.protocol.work import (
    ApplyChanges,
    ChangesApplied,
    ChangesCut,
    KeyRangeStaged,
    ReadKeyRange,
    StagedFile,
    Verify,
    Work,
)

if TYPE_CHECKING:
    from support.simulation.models.arrangement import ArrangementModel


class OpenedArrangement:
    """One attempt."""

    def __init__(self, model: ArrangementModel, strategy: Strategy) -> None:
        """Take the model and the strategy."""
        self.strategy = strategy
        self._model = model

    def effect(self, work: Work) -> Effect:
        """See `Opened`."""
        if isinstance(work, ReadKeyRange):
            return self._read(work)
        assert isinstance(work, ApplyChanges)
        return self._apply(work)

    def _read(self, work: ReadKeyRange) -> Staging:
        model = self._model
        rows = model.in_range(work)
        cut_off = model.is_cut_off(work)
        last = model.arranged.position(rows[-1]) if cut_off else None
        model.cut_off += cut_off
        kept = [row for row in rows if model.table.passes(row[1])]
        staged = [(INSERT, work.version, *row) for row in kept] if model.mode == CHANGELOG else kept

        def answer(files: tuple[StagedFile, ...]) -> KeyRangeStaged:
            line = model.line(work.version) if cut_off and work.takes_cuts else None
            model.recuts += line is not None
            return KeyRangeStaged(work.work_id, files, len(rows), last, line)

        return Staging((staged,), answer)

    def _apply(self, work: ApplyChanges) -> Effect:
        model = self._model
        reach = (
            (EVERYTHING,) * model.arranged.vnodes
            if work.bound is None
            else model.arranged.reach_of(work.bound.positions)
        )
        changes = model.table.between(work.after, work.upto)
        model.rounds += work.bound is not None
        model.whole_merges += work.bound is None and model.mode == UPSERT
        if model.mode == UPSERT:
            net: dict[int, int | None] = {}
            cuts = cut(work, {change.key for change in changes if self._touches(change, reach)})
            if cuts:
                return Filing(lambda _, __: ChangesCut(work.work_id, BY_KEY, cuts))
            for change in changes:
                present = self._there(change, reach)
                model.straddles += (
                    change.op == UPDATE and model.arranged.within((change.key, change.before), reach) != present
                )
                net[change.key] = change.value if present and model.table.passes(change.value) else None
            net = {key: row for key, row in net.items() if in_part(work.part, key)}
            return Merging(work.txn_version, net, lambda count: ChangesApplied(work.work_id, count))
        if model.mode == APPEND:
            rows = [
                (change.key, change.value)
                for change in changes
                if self._there(change, reach) and model.table.passes(change.value)
            ]
        else:
            rows = [
                row for change in changes for row in model.logged(change, lambda row: model.arranged.within(row, reach))
            ]
        return Staging((rows,), lambda files: ChangesApplied(work.work_id, len(rows), files))

    def _touches(self, change: Change, reach: Reach) -> bool:
        """Return whether one of its images is at or before the positions."""
        images = (value for value in (change.value, change.before) if value is not None)
        return any(self._model.arranged.within((change.key, value), reach) for value in images)

    def _there(self, change: Change, reach: Reach) -> bool:
        return change.op != DELETE and self._model.arranged.within((change.key, change.value), reach)

    def wanted(self, work: Verify) -> Promise:
        """See `Opened`."""
        model = self._model
        if work.covered is None:
            return model.rows_of((EVERYTHING,) * model.arranged.vnodes, work.position)
        return model.rows_of(model.arranged.reach_of(work.covered.positions), work.position)
