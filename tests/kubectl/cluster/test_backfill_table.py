"""The Backfills of a watch, after each kind of event."""

import pytest
from support.plugin.objects import raw, running

from backfill_kubectl.cluster.backfill_table import BackfillTable
from backfill_kubectl.errors import ForbiddenError


def table(*events):
    """Return a table after these events."""
    made = BackfillTable()
    for type_, object_ in events:
        made.change(type_, object_)
    return made


def names(made):
    """Return the names in the table."""
    return [backfill.name for backfill in made.backfills()]


LISTED = (("LISTING", {}), ("ADDED", raw("orders")), ("ADDED", raw("items")), ("LISTED", {}))


class TestTheTable:
    """It always has the objects of one time."""

    def test_incomplete_first_list_is_no_list(self):
        """A table with the first page of ten would look like jobs that are lost."""
        made = table(*LISTED[:-1])

        assert made.backfills() is None
        assert not made.news.is_set()

    def test_events_of_a_watch_change_single_objects(self):
        """The others are not read again."""
        made = table(
            *LISTED, ("MODIFIED", raw("orders", status=running())), ("DELETED", raw("items")), ("ADDED", raw("new"))
        )

        assert names(made) == ["orders", "new"]
        assert made.backfills()[0].status.phase == "Running"

    def test_another_list_replaces_all_objects(self):
        """Objects that were deleted between two watches are gone, also if the first watch had changed them."""
        made = table(*LISTED, ("MODIFIED", raw("items")), ("LISTING", {}), ("ADDED", raw("orders")))

        assert names(made) == ["orders", "items"]
        made.change("LISTED", {})
        assert names(made) == ["orders"]

    def test_error_of_the_watch_is_raised(self):
        """The page shows it instead of old values."""
        made = table(*LISTED)
        made.fail(ForbiddenError("you may not list backfills.backfill.dev"))

        with pytest.raises(ForbiddenError, match="you may not list"):
            made.backfills()
