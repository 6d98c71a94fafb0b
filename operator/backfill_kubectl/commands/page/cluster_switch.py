"""The switch of an operator for all its jobs, on the page and with the user's rights."""

from __future__ import annotations

import threading
import time
from typing import Final

from backfill_api.resources import CONFIG_MAPS
from backfill_api.spec.change_claim import PauseAll
from backfill_console.commands.acknowledgements import acknowledged
from backfill_core.errors import BackfillError
from backfill_core.lifecycle.inputs.all_jobs import describe_pause
from backfill_kubectl.cluster.all_jobs import SwitchedJobs, await_switch, scope_of, stored_switch, write_switch
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.commands.changes import claim_of
from backfill_kubectl.commands.options import OPERATOR_NAMESPACE_DEFAULT, PROGRAM
from backfill_kubectl.decisions.all_jobs import describe_missing, summary
from backfill_page.seen import AllJobsAction, AllJobsSwitch, Answer, PauseAllJobs

WAIT_S: Final = 10.0
READ_EVERY_S: Final = 5.0
EFFECT: Final = "It concerns all jobs of the operator, in each of its namespaces."


class ClusterSwitch:
    """Reads and writes the switch; any thread may call its methods."""

    def __init__(self, api: ApiServer, namespace: str, operator_namespace: str) -> None:
        """Read nothing yet.

        Args:
            api: The API server.
            namespace: Namespace whose jobs are awaited if the user may not list those of all namespaces.
            operator_namespace: Namespace of the operator.
        """
        self._api = api
        self._namespace = namespace
        self._operator_namespace = operator_namespace
        self._lock = threading.Lock()
        self._read_s: float | None = None
        self._newest: AllJobsSwitch | None = None

    def newest(self) -> AllJobsSwitch | None:
        """Return the switch, read at most every five seconds; `None` if the operator's release has none."""
        with self._lock:
            if self._read_s is None or time.monotonic() - self._read_s > READ_EVERY_S:
                self._newest = self._read()
                self._read_s = time.monotonic()
            return self._newest

    def _read(self) -> AllJobsSwitch | None:
        where = self._operator_namespace
        try:
            stored = stored_switch(self._api, where)
        except BackfillError:
            return None
        try:
            allowed = self._api.may("patch", CONFIG_MAPS, where)
        except BackfillError:
            allowed = True  # the action itself reports the missing right
        lack = "" if allowed else f"You may not patch {CONFIG_MAPS.label} in namespace {where}."
        if stored is None or not stored.enabled:
            return AllJobsSwitch(False, effect=EFFECT, lack=lack)
        return AllJobsSwitch(True, describe_pause(stored).replace("all", "All", 1), EFFECT, lack)

    def act(self, action: AllJobsAction) -> Answer:
        """Write the switch, and wait for the acknowledgement of each running job that the user may list."""
        pauses, where = isinstance(action, PauseAllJobs), self._operator_namespace
        verb, claim = "pause --all-jobs" if pauses else "resume --all-jobs", claim_of(None, action.reason)
        switch = PauseAll(enabled=pauses, by=claim.by, note=claim.note, time=claim.time)
        try:
            scope = scope_of(self._api, self._namespace, where)
            at_s = write_switch(self._api, where, switch)
            with self._lock:
                self._read_s = None
            if scope is None:
                return Answer(True, f"{verb}: recorded; you may not list Backfills, so no acknowledgement is awaited")
            jobs = await_switch(self._api, scope, switch, at_s=at_s, wait_s=WAIT_S, on_answer=lambda *_: None)
        except BackfillError as error:
            return Answer(False, f"{verb}: {error.message} {error.hint}".strip())
        return Answer(not jobs.missing, f"{verb}: {self._result(switch, jobs)}")

    def _result(self, switch: PauseAll, jobs: SwitchedJobs) -> str:
        if jobs.missing:
            number = len(jobs.missing) + len(jobs.acknowledged)
            missing = describe_missing(jobs.missing.items())
            return f"{len(jobs.missing):,} of {number:,} running jobs have not acknowledged: {missing}. The switch stays set."
        default = self._operator_namespace == OPERATOR_NAMESPACE_DEFAULT
        place = "" if default else f" --operator-namespace {self._operator_namespace}"
        undo = f"{PROGRAM} {'resume' if switch.enabled else 'pause'} --all-jobs{place}"
        return acknowledged(summary(switch, len(jobs.acknowledged), len(jobs.held), jobs.seconds), undo=undo)
