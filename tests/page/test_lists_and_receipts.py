"""The menu of namespaces, the pause of all jobs, and the condition for rows that differ, by a client on a real port."""

from dataclasses import replace

import pytest
from support.console.frames import CLUSTER
from support.page.scripted_source import ROW, seen

from backfill_api.status.receipt import ReceiptSummary
from backfill_page.seen import AllJobsSwitch, JobRow, PauseAllJobs, ResumeAllJobs

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class TestNamespaces:
    """A menu chooses a namespace among those of the jobs."""

    ROWS = (ROW, JobRow("stock/items", "waits", "Pending"))

    def test_list_and_its_stream_show_the_chosen_one(self, page, source):
        """The counts are those of the shown jobs."""
        source.put(rows=self.ROWS)
        text = page.get("/?namespace=stock").text
        with page.events("/events?namespace=stock") as messages:
            regions = next(message["regions"] for message in messages if message.get("regions"))

        assert "<option selected>stock</option>" in text
        assert 'data-stream="/events?namespace=stock"' in text
        for part in (text, regions["rows"]):
            assert "stock/items" in part
            assert "shop/orders" not in part
        assert "1 job<" in text

    def test_there_is_no_menu_without_a_choice(self, page, source):
        """All jobs are in one namespace, or have none."""
        source.put(rows=[ROW, JobRow("local", "runs", "Running")])

        assert 'id="namespace"' not in page.get("/").text

    def test_chosen_namespace_stays_in_the_menu_after_its_last_job(self, page, source):
        """Otherwise there would be no way back."""
        source.put(rows=[ROW])
        text = page.get("/?namespace=<b>gone").text

        assert "<option selected>&lt;b&gt;gone</option>" in text
        assert "No jobs." in text


class TestAllJobs:
    """One button pauses all jobs, with a reason that each job shows."""

    def act(self, page, verb, **fields):
        return page.act("", verb, path="/act/all", **fields).text

    def test_pause_and_resume_have_their_reason(self, page, source):
        """The button is the opposite of the state."""
        assert 'value="pause"' in page.get("/").text
        assert "2 running jobs acknowledged in 0.9 s" in self.act(page, "pause", reason=" incident  4711 ")
        text = page.get("/").text
        self.act(page, "resume", reason="")

        assert source.acted == [("all", PauseAllJobs("incident 4711")), ("all", ResumeAllJobs(""))]
        assert "All jobs are paused: incident 4711" in text
        assert 'value="resume"' in text

    @pytest.mark.parametrize(
        ("verb", "reason", "message"), [("pause", "  ", "give a reason"), ("stop", "incident", "unknown action")]
    )
    def test_malformed_form_is_named_and_not_sent(self, page, source, verb, reason, message):
        """All jobs of an operator are a lot to stop by a slip."""
        assert message in self.act(page, verb, reason=reason)
        assert source.acted == []

    def test_form_of_another_page_is_refused(self, page, source):
        """It lacks the value that only this page contains."""
        answer = page.act("", "pause", path="/act/all", reason="x", headers={"X-Backfill-CSRF": "wrong"})

        assert answer.status == 403
        assert source.acted == []

    def test_missing_right_disables_the_button_and_is_named(self, page, source):
        """The user knows what to ask for, and why jobs stand still."""
        lack = "You may not patch configmaps in namespace backfill-system."
        source.put(switch=AllJobsSwitch(True, HOSTILE, lack=lack))
        text = page.get("/").text

        assert 'value="resume" disabled' in text
        assert lack in text
        assert "<img" not in text


class TestADifference:
    """A receipt that differs offers the condition that finds the rows."""

    CONDITION = "pmod(xxhash64(`id`), 256) IN (0, 215)"

    def test_condition_is_a_text_to_copy(self, page, source):
        """It is for a query of the target."""
        receipt = ReceiptSummary(target_version=4, rows=9, mismatches=2, condition=self.CONDITION)
        source.put(seen(frame=replace(CLUSTER, receipt=receipt)))
        text = page.get("/job?key=shop/orders").text

        assert f'data-copy="{self.CONDITION}"' in text
        assert "Copy the condition for rows that differ" in text

    def test_there_is_no_button_without_a_condition(self, page, source):
        """Both sides are equal, only files differ, or the table has no key."""
        source.put(seen(frame=replace(CLUSTER, receipt=ReceiptSummary(target_version=4, rows=9, mismatches=2))))

        assert "Copy the condition" not in page.get("/job?key=shop/orders").text
