"""Author of a change, as an annotation or the switch for all jobs claims it."""

from __future__ import annotations

from pydantic import StrictBool

from backfill_api.model import Model
from backfill_api.spec.bounds import By, Moment, Note


class ChangeClaim(Model):
    """Who changes a Backfill, and why. The request that changes the spec or the override sets it, too.

    An example of the annotation's value: `{"by": "anna", "note": "incident 4711", "time": "2026-11-26T21:37:02Z"}`.
    """

    by: By = ""
    """Name of the person or tool."""

    note: Note = ""
    """Reason of the change."""

    time: Moment = ""
    """Time of the change, RFC 3339. It makes a repeated claim of the same author new."""


class PauseAll(ChangeClaim):
    """The switch for all jobs: the value of the key `pauseAll` in the ConfigMap `backfill-all-jobs`, in the operator's namespace.

    An example: `{"enabled": true, "note": "incident 4711", "by": "anna", "time": "2026-11-26T21:37:02Z"}`.
    """

    enabled: StrictBool
    """True while all jobs pause and no driver is launched."""

    @property
    def pause(self) -> ChangeClaim | None:
        """Author and reason of the pause; `None` if it is not enabled."""
        return ChangeClaim(by=self.by, note=self.note, time=self.time) if self.enabled else None
