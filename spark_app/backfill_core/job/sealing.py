"""Actions of an attempt: commits, polls of the source, and comparisons. `job.py` decides when they begin."""

from __future__ import annotations

from dataclasses import replace

from backfill_core.job.publishing import hidden_parts, step_of
from backfill_core.job.source_watch import KEPT_EVERY
from backfill_core.job.view import AttemptView
from backfill_core.protocol.actions import PollSource, Seal, StartWork
from backfill_core.protocol.clock import Now
from backfill_core.protocol.strategy import CommitRequest
from backfill_core.protocol.work import Verify


class AttemptActions(AttemptView):
    """Changes an attempt so that a commit, a poll or a comparison is under way, and returns its action."""

    def _seal(
        self, request: CommitRequest, now: Now, *, verify: bool, fences: bool = False, publishes: bool = False
    ) -> Seal:
        epoch, quarantine, publication = self._epoch, self._state.quarantine, self._state.publication
        step = step_of(publication, request.files, epoch.txn_version, publishes=publishes)
        self._state = replace(
            self._state,
            epoch=epoch.number,
            # The attempt before this one may have died between its two commits.
            quarantine=quarantine if fences else quarantine.after(request.files, epoch.txn_version),
            finished=self._stays_finished(request),
            progress=self._strategy.stored.encode(),
            consumed=self._strategy.status.consumed,
            controls=self._controls,
            percent=self._course.ahead(self._facts(now), request.rows, now.mono_s),
            committed_ms=now.wall_ms,
            publication=step.publication,
        )
        action = self._commits.begin(
            epoch,
            self._state,
            request,
            self._inbox.applied,
            step,
            verify=verify,
            fences=fences,
            final=self._settings.verify_final,
        )
        self._inbox = replace(self._inbox, applied=())
        self._epoch = epoch.after(2 if request.announces else 1)
        return action

    def _seal_state(self, now: Now) -> Seal:
        """Commit while a MERGE runs: the durable state, with the commands in force."""
        epoch, commands = self._epoch, self._inbox.applied
        self._state = replace(
            self._state,
            epoch=epoch.number,
            controls=self._controls,
            percent=self._course.percent,
            committed_ms=now.wall_ms,
        )
        self._inbox, self._epoch = replace(self._inbox, applied=()), epoch.after()
        self._times = replace(self._times, hurried=False)
        return self._commits.begin_state_only(epoch, self._state, commands)

    def _poll(self) -> PollSource:
        """Poll the source; every `KEPT_EVERY` barriers also check that it keeps the data needed next (port.md 5.1)."""
        self._watch = self._watch.ask()
        return PollSource(None if self._times.barriers % KEPT_EVERY else self._strategy.status.position)

    def _verify(self) -> list[StartWork]:
        status, version = self._strategy.status, self._commits.log.table_version
        epoch, work_id, staged = self._epoch.number, self._work.next_id, hidden_parts(self._state.publication)
        work = Verify(work_id, status.position, version, epoch, status.covered, status.cut_off, staged)
        return self._work.start([work])
