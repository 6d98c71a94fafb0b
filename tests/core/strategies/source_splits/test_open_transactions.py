"""Committed records behind the open transaction of a producer that died: no reader of committed records gets them (fault B8)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.source_splits.by_hand import ByHand

from backfill_core.job.state import receipt_from_json, receipt_to_json
from backfill_core.pacing.open_transactions import LASTING_S
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.events import Head, SourcePolled
from backfill_core.protocol.receipt import Receipt
from backfill_core.strategies.source_splits.stored import decode

BEHIND = (OffsetRange("0", 85, 100),)


def cut(**settings: Any) -> ByHand:
    """Return a job over 85 readable records and 15 behind an open transaction, with everything readable in the target."""
    one = ByHand(85, 10, **settings)
    one.hold()
    one.produce("0", 15)
    one.run()
    return one


def pass_time(one: ByHand, seconds: float) -> None:
    """Let time pass, with a poll and a commit at its end."""
    one.now_s += seconds
    one.poll()
    one.commit()


class TestAJobThatFollows:
    """A job with `after: Follow` reports what it cannot read."""

    def test_counts_lag_to_the_high_watermark(self) -> None:
        """The records are there, and the target lacks them."""
        one = cut(follow=True)

        view = one.strategy.view(one.now)

        assert (view.lag_records, view.caught_up) == (15, False)
        assert view.lag_by_partition is not None
        assert view.lag_by_partition.shown[0] == ("0", 15)

    def test_warns_of_a_lasting_transaction_with_partition_offset_and_age(self) -> None:
        """Transactions of a few moments are normal; one of a producer that died is not."""
        one = cut(follow=True)
        early = one.strategy.view(one.now).warnings
        pass_time(one, LASTING_S + 7)

        (warning,) = one.strategy.view(one.now).warnings

        assert early == ()
        assert warning.code == "OpenTransaction"
        assert "partition 0 offset 85 to 100" in warning.message
        assert "for up to 12 s" in warning.message

    def test_catches_up_once_the_transaction_ends(self) -> None:
        """The broker aborts it, or the producer returns."""
        one = cut(follow=True)
        pass_time(one, 1000)
        assert not one.strategy.view(one.now).caught_up
        one.release()
        one.run()

        view = one.strategy.view(one.now)

        assert (view.caught_up, view.lag_records, view.warnings, view.reason) == (True, 0, (), "")
        assert one.target[("0", 99)] == 1

    def test_is_not_caught_up_while_a_later_transaction_lasts(self) -> None:
        """The job was Live already: `caughtUp` is no memory of better days."""
        one = ByHand(10, follow=True)
        one.run()
        assert one.strategy.view(one.now).caught_up
        one.hold()
        one.produce("0", 5)
        one.poll()
        young = one.strategy.view(one.now).caught_up
        pass_time(one, LASTING_S)

        assert (young, one.strategy.view(one.now).caught_up) == (True, False)
        assert one.strategy.status.cut_off == (OffsetRange("0", 10, 15),)

    def test_lag_in_time_counts_from_the_first_poll_that_saw_the_records(self) -> None:
        """`lagSeconds` was 0 all the while."""
        one = cut(follow=True)
        pass_time(one, 60)

        assert one.strategy.view(one.now).lag_ms == 60_000

    def test_busy_transactional_producer_raises_no_warning(self) -> None:
        """At every poll another transaction is open, and none of them lasts."""
        one = ByHand(0, follow=True)
        for _ in range(30):
            one.hold()
            one.produce("0", 10)
            one.run()
            assert one.strategy.view(one.now).warnings == ()
            one.now_s += 1
        assert one.target[("0", 280)] == 1

    def test_source_without_transactions_reports_none(self) -> None:
        """A source that names no watermarks ends where its position says."""
        one = ByHand(5, follow=True)
        one.strategy.on(SourcePolled(Head({"0": 5}, 0, "topic-1")), one.now)

        assert one.strategy.view(one.now).lag_records == 5


class TestAJobThatEnds:
    """A job with `after: Exit` waits, and after its time it names what it leaves out."""

    def test_waits_for_the_records_behind(self) -> None:
        """The broker aborts the transaction of a producer that died, by default within 15 minutes."""
        one = cut()
        pass_time(one, 899)

        assert not one.strategy.status.complete
        assert (
            "waiting for open transactions; without their records it ends in 1 s" in one.strategy.view(one.now).reason
        )
        one.release()
        one.run()
        assert one.strategy.status.complete
        assert one.strategy.status.cut_off == ()
        assert sum(one.target.values()) == 110

    def test_ends_after_the_time_of_the_setting_and_names_the_offsets(self) -> None:
        """A hanging transaction may never end."""
        one = cut(open_transaction_s=30)
        pass_time(one, 29)
        waiting = one.strategy.status.complete
        pass_time(one, 1)
        status = one.strategy.status

        assert (waiting, status.complete, status.cut_off) == (False, True, BEHIND)
        assert not one.strategy.view(one.now).caught_up

    def test_next_attempt_knows_what_was_left_out(self) -> None:
        """A crash between the last commit and the receipt must not make the copy whole."""
        one = cut(open_transaction_s=0)
        assert one.strategy.status.cut_off == BEHIND
        one.open()

        assert (one.strategy.status.cut_off, one.strategy.status.complete) == (BEHIND, True)

    def test_next_attempt_that_follows_reads_what_was_left_out(self) -> None:
        """A job may be told to follow before it is finished."""
        one = cut(open_transaction_s=0)
        one.settings = replace(one.settings, follow=True)
        one.open()
        one.release()
        one.run()

        assert one.strategy.status.cut_off == ()
        assert sum(one.target.values()) == 110
        one.open()

    def test_does_not_wait_for_transactions_that_begin_later(self) -> None:
        """A busy topic always has an open transaction; only those that stood there count."""
        one = cut()
        one.release()
        one.produce("0", 5)
        one.hold()
        one.produce("0", 7)
        one.run()

        assert (one.strategy.status.complete, one.strategy.status.cut_off) == (True, ())

    def test_topic_without_open_transactions_ends_at_once(self) -> None:
        """There is nothing to wait for."""
        one = ByHand(10)
        one.run()

        assert one.strategy.status.complete

    def test_stored_receipt_names_what_was_left_out(self) -> None:
        """`backfill run` of a finished job shows it again."""
        receipt = Receipt(
            None, 7, 5, 85, 8, "ab", (), 0.1, 1, complete=False, source_position="offsets 0:85", cut_off=BEHIND
        )

        assert receipt_from_json(json.loads(json.dumps(receipt_to_json(receipt)))) == receipt

    def test_stored_offsets_must_be_ahead(self) -> None:
        """A state that contradicts itself is refused."""
        one = cut(open_transaction_s=0)
        assert one.stored is not None
        text = one.stored.encode()
        assert decode(json.loads(json.dumps(text))) == one.stored
        with pytest.raises(Exception, match="cutOff"):
            decode({**text, "cutOff": {"0": 3}})
