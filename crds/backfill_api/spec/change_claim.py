"""Author of a change, as the annotation `backfill.dev/changed-by` claims it."""

from __future__ import annotations

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
