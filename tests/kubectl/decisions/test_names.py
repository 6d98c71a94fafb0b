"""Names that users type, and changes that make no sense."""

import pytest
from support.plugin.objects import running, stored

from backfill_kubectl.decisions.changes import Approve, Pause, Retry, RunAgain, TakeReceipt
from backfill_kubectl.decisions.refusals import parse_name, refusal


class TestNames:
    """A name is accepted as kubectl prints it."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("orders", (None, "orders")), ("shop/orders", ("shop", "orders")), ("bf/orders", (None, "orders")),
            ("backfill.backfill.dev/orders", (None, "orders")), ("backfills/a.b-2", (None, "a.b-2")),
        ],
    )  # fmt: skip
    def test_name_is_read(self, text, expected):
        """A namespace or a kind may precede it."""
        assert parse_name(text) == expected

    @pytest.mark.parametrize(
        "text", ["", "Orders", "../x", "a/b/c", "shop/", "/orders", "a b", "ü", "x" * 300, "-o", "a?b=c", "a\x1b[0m"]
    )
    def test_odd_name_is_refused(self, text):
        """It never reaches the API server."""
        with pytest.raises(ValueError, match="is not a name"):
            parse_name(text)


class TestRefusals:
    """A change without an effect is refused before it is written."""

    @pytest.mark.parametrize("change", [Pause(), TakeReceipt(), Retry()])
    def test_ended_job_takes_no_change(self, change):
        """Its driver is gone for good."""
        error = refusal(stored(status={"phase": "Succeeded"}), change)

        assert (error.reason, error.exit_code) == ("NotRunning", 4)

    def test_ended_job_can_be_refreshed(self):
        """The hint of every other change names the command."""
        complete = stored(status={"phase": "Succeeded"})

        assert refusal(complete, RunAgain()) is None
        assert "kubectl backfill refresh shop/orders" in refusal(complete, Pause()).hint

    def test_failed_job_can_only_be_retried(self):
        """Any edit of its spec would start it again."""
        failed = stored(status={"phase": "Failed"})

        assert refusal(failed, Retry()) is None
        assert "kubectl backfill retry shop/orders" in refusal(failed, Pause()).hint

    def test_deleted_job_takes_no_change(self):
        """It drains already."""
        assert refusal(stored(deletionTimestamp="2026-11-26T21:00:00Z"), Pause()).reason == "NotRunning"

    @pytest.mark.parametrize("status", [{}, running()])
    def test_only_a_job_that_waits_can_be_approved(self, status):
        """An approval of an unseen plan is none."""
        assert refusal(stored(status=status), Approve()).reason == "CommandRefused"
        assert refusal(stored(status=status, spec={"approval": "Manual"}), Approve()).reason == "CommandRefused"
        waiting = stored(status={"phase": "AwaitingApproval"}, spec={"approval": "Manual"})
        assert refusal(waiting, Approve()) is None
