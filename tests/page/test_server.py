"""Pages, streams and actions, by a client on a real port."""

from dataclasses import replace

import pytest
from support.console.frames import CLUSTER
from support.page.scripted_source import ROW, seen

from backfill_page.seen import Answer, Ended, JobRow, NextCommand, Pause, Resume, Throttle, Verify

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
BUSY_S = 60
"""A value is younger, also on a busy machine."""

JOB = "/events/job?key=shop/orders"


def wait_for(messages, holds):
    """Return the first message for which a condition holds; each message comes in two seconds at most."""
    for _, message in zip(range(50), messages, strict=False):
        if holds(message):
            return message
    raise AssertionError("no such message")


def changed_frame(**fields):
    """Return the job with another progress."""
    return seen(frame=replace(CLUSTER, progress=CLUSTER.progress.model_copy(update=fields)))


class TestPages:
    """A page is whole without its scripts."""

    def test_list_links_to_each_job(self, page):
        """The table is in the first answer, so the first paint has it."""
        text = page.get("/").text

        assert 'href="/job?key=shop/orders"' in text
        assert "61,204,118 of 98,000,000" in text

    def test_job_has_its_regions(self, page):
        """Head, steps, snapshot, attempts and commands."""
        text = page.get("/job?key=shop/orders").text

        for part in (
            "Running",
            "61 %",
            "copy",
            "39 of 64 parts committed",
            "orders-2-driver",
            "resume applied at epoch 523",
        ):
            assert part in text

    def test_missing_job_is_named(self, page):
        """The link may be old."""
        answer = page.get("/job?key=shop/items")

        assert answer.status == 404
        assert "There is no job &#39;shop/items&#39;." in answer.text

    @pytest.mark.parametrize("path", ["/", "/job?key=shop/orders"])
    def test_source_that_cannot_be_read_is_named(self, page, source, path):
        """The message has the verb and the resource."""
        source.put(error="you may not list backfills.backfill.dev in namespace shop")
        answer = page.get(path)

        assert answer.status == 502
        assert "you may not list backfills.backfill.dev in namespace shop" in answer.text

    def test_ended_run_has_its_outcome_and_the_next_commands(self, page, source):
        """The commands are for the user's own terminal, so they can be copied."""
        ended = Ended(
            "Failed",
            False,
            "KeyNotUnique",
            "3 rows",
            next_commands=(NextCommand("Try again", "kubectl backfill retry orders"),),
        )
        source.put(seen(ended=ended))
        text = page.get("/job?key=shop/orders").text

        assert "KeyNotUnique" in text
        assert 'data-copy="kubectl backfill retry orders"' in text
        assert 'id="buttons"' not in text

    def test_disabled_buttons_name_the_missing_verb(self, page, source):
        """A user without rights sees the verb to ask for."""
        source.put(seen(forbidden="patch backfills.backfill.dev in namespace shop"))
        text = page.get("/job?key=shop/orders").text

        assert 'value="pause" disabled' in text
        assert "You may not patch backfills.backfill.dev in namespace shop." in text

    def test_theme_of_the_cookie_is_in_the_first_answer(self, page):
        """A dark page that begins white dazzles; a foreign value is no theme."""
        assert 'data-theme="dark"' in page.get("/", Cookie=f"{page.cookie}; theme=dark").text
        assert "data-theme" not in page.get("/", Cookie=f"{page.cookie}; theme=<b>").text


class TestHostileValues:
    """Names and messages come from other users, from drivers and from the cluster."""

    def test_html_of_a_row_is_escaped(self, page, source):
        """A job id of another user's file."""
        source.put(rows=[JobRow(HOSTILE, "runs", HOSTILE, HOSTILE)])
        text = page.get("/").text

        assert "<script>alert" not in text
        assert "<img" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text

    def test_html_of_a_job_is_escaped_in_page_and_stream(self, page, source):
        """Each string of a driver, and the key in links and forms."""
        frame = replace(
            CLUSTER, name=HOSTILE, resting=HOSTILE, strategy=HOSTILE, warnings=(HOSTILE,), plan=HOSTILE,
            progress=CLUSTER.progress.model_copy(update={"reason": HOSTILE, "position": HOSTILE}),
            events=(replace(CLUSTER.events[0], message=HOSTILE, reason=HOSTILE),),
            commands=(replace(CLUSTER.commands[0], by=HOSTILE, note=HOSTILE),),
            tree=(replace(CLUSTER.tree[0], name=HOSTILE, info=HOSTILE, status=HOSTILE),),
        )  # fmt: skip
        source.put(seen(HOSTILE, frame, problem=HOSTILE, forbidden=HOSTILE))
        from urllib.parse import quote

        texts = [page.get(f"/job?key={quote(HOSTILE)}").text]
        with page.events(f"/events/job?key={quote(HOSTILE)}&ended=0") as messages:
            texts += wait_for(messages, lambda message: message.get("regions"))["regions"].values()

        assert sum(text.count("&lt;img src=x onerror") for text in texts) > 15
        assert [text for text in texts if "<img" in text or "<script>" in text] == []

    def test_characters_that_reverse_a_line_are_left_out(self, page, source):
        """A message could show another command than the one that is copied."""
        source.put(rows=[JobRow("a", "runs", "Running", "safe\u202egnp.exe")])

        assert "\u202e" not in page.get("/").text

    @pytest.mark.parametrize(
        "fields",
        [
            {"last_commit_time": "yesterday"},
            {"eta": "soon"},
            {"eta": "2026-11-26T21:00:00"},
            {"eta": None, "eta_seconds": 2**60},
        ],
        ids=str,
    )
    def test_value_without_sense_is_reported_and_the_page_stays(self, page, source, fields):
        """A driver of another version, or another program, may report it; pause must stay possible."""
        source.put(changed_frame(**fields))
        answer = page.get("/job?key=shop/orders")

        assert answer.status == 200
        assert "a value that cannot be shown" in answer.text
        assert 'value="pause"' in answer.text

    def test_answer_of_an_action_is_escaped(self, page, source):
        """It quotes messages of the driver."""
        source.answer = Answer(False, HOSTILE)

        assert "<img" not in page.act("shop/orders", "pause").text


class TestTheStream:
    """A browser gets the regions that changed, and the age of the data."""

    def test_first_message_has_all_regions_and_later_ones_only_changes(self, page, source):
        """The commands did not change with the rate."""
        with page.events(JOB) as messages:
            first = next(messages)
            source.put(changed_frame(rows_per_second=90_000))
            later = wait_for(messages, lambda message: message.get("regions"))

        assert {"head", "buttons", "bars", "parts", "facts", "log", "receipt"} == set(first["regions"])
        assert 0 <= first["age_s"] < BUSY_S
        assert "90,000 rows/s" in later["regions"]["facts"]
        assert "log" not in later["regions"]

    def test_new_job_appears_in_the_list(self, page, source):
        """Without a reload."""
        with page.events("/events") as messages:
            next(messages)
            source.put(rows=[ROW, JobRow("shop/items", "waits", "Pending")])

            assert "shop/items" in wait_for(messages, lambda message: message.get("regions"))["regions"]["rows"]

    def test_samples_of_the_charts_are_kept_between_two_browsers(self, page, source):
        """A reload keeps the charts."""
        source.put(seen("shop/charted"))
        with page.events("/events/job?key=shop/charted") as messages:
            first = next(messages)["chart"]
        with page.events("/events/job?key=shop/charted") as messages:
            again = next(messages)["chart"]

        assert set(first["rate"]) == {82_410}
        assert again["at"][: len(first["at"])] == first["at"]

    def test_problem_of_the_source_is_shown_and_passes(self, page, source):
        """The API server restarts; the stream stays open."""
        with page.events(JOB) as messages:
            next(messages)
            source.put(error="the API server does not answer")
            assert (
                wait_for(messages, lambda message: "problem" in message)["problem"] == "the API server does not answer"
            )
            source.put()
            assert "problem" not in wait_for(messages, lambda message: "age_s" in message)

    def test_end_of_the_job_loads_its_other_page(self, page, source):
        """The page of a run that has ended has other parts."""
        with page.events(JOB) as messages:
            next(messages)
            source.put(seen(ended=Ended("Complete", True)))

            assert wait_for(messages, lambda message: "reload" in message)["reload"] is True

    def test_deleted_job_is_reported(self, page, source):
        """The last values stay on the screen."""
        with page.events(JOB) as messages:
            next(messages)
            source.by_key.clear()

            assert wait_for(messages, lambda message: "problem" in message)["problem"] == "the job is gone"

    def test_job_that_is_created_again_is_shown_again(self, page, source, monkeypatch):
        """A user deletes a job and applies its file again; its page once stayed "gone" until a reload."""
        monkeypatch.setattr("backfill_page.server.feeds.RETRY_S", 0.05)
        with page.events(JOB) as messages:
            next(messages)
            source.by_key.clear()
            wait_for(messages, lambda message: "problem" in message)
            source.put(changed_frame(rows_per_second=7_000))

            again = wait_for(messages, lambda message: message.get("regions"))

        assert "7,000 rows/s" in again["regions"]["facts"]
        assert "problem" not in again

    def test_source_is_read_once_for_all_browsers_and_not_without_one(self, page, source):
        """A tab that stays open for a day must not cost the cluster a watch for each reload."""
        with page.events(JOB) as first, page.events(JOB) as second:
            next(first)
            next(second)
            # The feed of an earlier test may end shortly after it.
            assert wait_for(first, lambda _: source.watches == 1)
        with page.events("/events") as messages:
            wait_for(messages, lambda _: source.watches == 1)

        assert source.watches <= 1

    def test_number_of_watched_jobs_is_bounded(self, page, monkeypatch):
        """Each one costs the cluster a watch, and the operator a status every two seconds."""
        monkeypatch.setattr("backfill_page.server.feeds.JOBS_WATCHED_MAX", 1)
        with page.events(JOB) as messages:
            next(messages)
            refused = page.get("/events/job?key=shop/items")

            assert refused.status == 503
            assert "close other pages" in refused.text


class TestActions:
    """A form becomes one action, and its answer stands next to the buttons."""

    @pytest.mark.parametrize(
        ("fields", "action"),
        [
            ({"verb": "pause"}, Pause()),
            ({"verb": "resume"}, Resume()),
            ({"verb": "verify"}, Verify()),
            ({"verb": "throttle", "rate": "100k", "for_": "30m"}, Throttle(100_000, 1800)),
            ({"verb": "throttle", "rate": "1.5M", "for_": ""}, Throttle(1_500_000)),
            ({"verb": "throttle", "rate": "none", "for_": ""}, Throttle(None)),
            ({"verb": "throttle", "rate": "0", "for_": "10m"}, Throttle(0, 600)),
        ],
        ids=str,
    )
    def test_form_is_the_action(self, page, source, fields, action):
        """Rates are typed as on the command line."""
        answer = page.act("shop/orders", **fields)

        assert source.acted == [("shop/orders", action)]
        assert "Acknowledged at epoch 14 in 80 ms." in answer.text

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"verb": "throttle", "rate": "-5"}, "invalid rate"),
            ({"verb": "throttle", "rate": ""}, "invalid rate"),
            ({"verb": "throttle", "rate": "5", "for_": "1y"}, "invalid duration"),
            ({"verb": "throttle", "rate": "none", "for_": "30m"}, "no limit has no end"),
            ({"verb": "delete"}, "unknown action"),
            ({"verb": ""}, "unknown action"),
        ],
        ids=str,
    )
    def test_malformed_form_is_named_and_not_sent(self, page, source, fields, message):
        """The answer has the value and the forms that are accepted."""
        assert message in page.act("shop/orders", **fields).text
        assert source.acted == []

    def test_refused_action_is_no_success(self, page, source):
        """The sign and the colour are those of a failure."""
        source.answer = Answer(False, "pause: you may not patch backfills.backfill.dev orders in namespace shop")
        text = page.act("shop/orders", "pause").text

        assert 'class="bad"' in text
        assert "✖" in text

    @pytest.mark.parametrize("body", ["x" * 5000, "key=" + "%00" * 1500])
    def test_large_form_is_rejected(self, page, source, body):
        """A form has some words."""
        assert page.act("shop/orders", "pause", body=body).status == 413
        assert source.acted == []
