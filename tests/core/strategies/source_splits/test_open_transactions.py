"""Committed records behind the open transaction of a dead producer: no reader of committed records gets them (fault
B8)."""

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
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.strategies.source_splits.stored import decode

BEHIND = (OffsetRange("0", 85, 100),)


def cut(**settings: Any) -> ByHand:
    """Return a job with 85 readable records and 15 behind an open transaction; the target has all readable records."""
    world = ByHand(85, 10, **settings)
    world.hold()
    world.produce("0", 15)
    world.run()
    return world


def pass_time(world: ByHand, seconds: float) -> None:
    """Let time pass, with a poll and a commit at its end."""
    world.now_s += seconds
    world.poll()
    world.commit()


class TestAJobThatFollows:
    """A job with `after: Follow` reports the records that it cannot read."""

    def test_lag_counts_to_the_high_watermark(self) -> None:
        """The records exist, and the target lacks them."""
        world = cut(follow=True)

        view = world.strategy.view(world.now)

        assert (view.lag_records, view.caught_up) == (15, False)
        assert view.lag_by_partition is not None
        assert view.lag_by_partition.shown[0] == ("0", 15)

    def test_a_lasting_transaction_causes_a_warning_with_partition_offset_and_age(self) -> None:
        """Short transactions are normal; the transaction of a dead producer lasts."""
        world = cut(follow=True)
        early = world.strategy.view(world.now).warnings
        pass_time(world, LASTING_S + 7)

        (warning,) = world.strategy.view(world.now).warnings

        assert early == ()
        assert warning.code == "OpenTransaction"
        assert "partition 0 offset 85 to 100" in warning.message
        assert "for up to 12 s" in warning.message

    def test_a_job_catches_up_once_the_transaction_ends(self) -> None:
        """The broker aborts the transaction, or the producer returns."""
        world = cut(follow=True)
        pass_time(world, 1000)
        assert not world.strategy.view(world.now).caught_up
        world.release()
        world.run()

        view = world.strategy.view(world.now)

        assert (view.caught_up, view.lag_records, view.warnings, view.reason) == (True, 0, (), "")
        assert world.target[("0", 99)] == 1

    def test_a_live_job_is_not_caught_up_while_a_later_transaction_lasts(self) -> None:
        """The job was Live already: `caughtUp` describes the current state."""
        world = ByHand(10, follow=True)
        world.run()
        assert world.strategy.view(world.now).caught_up
        world.hold()
        world.produce("0", 5)
        world.poll()
        young = world.strategy.view(world.now).caught_up
        pass_time(world, LASTING_S)

        assert (young, world.strategy.view(world.now).caught_up) == (True, False)
        assert world.strategy.status.cut_off == (OffsetRange("0", 10, 15),)

    def test_lag_in_time_counts_from_the_first_poll_that_saw_the_records(self) -> None:
        """`lagSeconds` was once 0 the whole time."""
        world = cut(follow=True)
        pass_time(world, 60)

        assert world.strategy.view(world.now).lag_ms == 60_000

    def test_a_busy_transactional_producer_causes_no_warning(self) -> None:
        """Every poll sees another open transaction, and none of them lasts."""
        world = ByHand(0, follow=True)
        for _ in range(30):
            world.hold()
            world.produce("0", 10)
            world.run()
            assert world.strategy.view(world.now).warnings == ()
            world.now_s += 1
        assert world.target[("0", 280)] == 1

    def test_a_source_without_transactions_has_no_such_lag(self) -> None:
        """A source without watermarks ends at its position."""
        world = ByHand(5, follow=True)
        world.strategy.on(SourcePolled(Head({"0": 5}, 0, "topic-1")), world.now)

        assert world.strategy.view(world.now).lag_records == 5


class TestAJobThatEnds:
    """A job with `after: Exit` waits for a limited time, and then names the records that it leaves out."""

    def test_a_job_that_ends_waits_for_the_records_behind(self) -> None:
        """The broker aborts the transaction of a dead producer, by default within 15 minutes."""
        world = cut()
        pass_time(world, 899)

        assert not world.strategy.status.complete
        assert (
            "waiting for open transactions; without their records it ends in 1 s"
            in world.strategy.view(world.now).reason
        )
        world.release()
        world.run()
        assert world.strategy.status.complete
        assert world.strategy.status.cut_off == ()
        assert sum(world.target.values()) == 110

    def test_a_job_ends_after_the_configured_time_and_names_the_offsets(self) -> None:
        """A hanging transaction may never end."""
        world = cut(open_transaction_s=30)
        pass_time(world, 29)
        waiting = world.strategy.status.complete
        pass_time(world, 1)
        status = world.strategy.status

        assert (waiting, status.complete, status.cut_off) == (False, True, BEHIND)
        assert not world.strategy.view(world.now).caught_up

    def test_the_next_attempt_has_the_offsets_that_were_left_out(self) -> None:
        """A crash between the last commit and the receipt must not make the copy complete."""
        world = cut(open_transaction_s=0)
        assert world.strategy.status.cut_off == BEHIND
        world.open()

        assert (world.strategy.status.cut_off, world.strategy.status.complete) == (BEHIND, True)

    def test_the_next_attempt_that_follows_reads_the_records_that_were_left_out(self) -> None:
        """A user may set a job to follow before it is finished."""
        world = cut(open_transaction_s=0)
        world.settings = replace(world.settings, follow=True)
        world.open()
        world.release()
        world.run()

        assert world.strategy.status.cut_off == ()
        assert sum(world.target.values()) == 110
        world.open()

    def test_a_job_does_not_wait_for_transactions_that_begin_later(self) -> None:
        """A busy topic always has an open transaction; only transactions from before the end count."""
        world = cut()
        world.release()
        world.produce("0", 5)
        world.hold()
        world.produce("0", 7)
        world.run()

        assert (world.strategy.status.complete, world.strategy.status.cut_off) == (True, ())

    def test_a_topic_without_open_transactions_ends_at_once(self) -> None:
        """The job has nothing to wait for."""
        world = ByHand(10)
        world.run()

        assert world.strategy.status.complete

    def test_a_stored_receipt_names_the_offsets_that_were_left_out(self) -> None:
        """`backfill run` of a finished job shows them again."""
        receipt = TableReceipt(
            None, 7, 5, 85, 8, "ab", (), 0.1, 1, complete=False, source_position="offsets 0:85", cut_off=BEHIND
        )

        assert receipt_from_json(json.loads(json.dumps(receipt_to_json(receipt)))) == receipt

    def test_stored_offsets_must_be_ahead(self) -> None:
        """A contradictory state is rejected."""
        world = cut(open_transaction_s=0)
        assert world.stored is not None
        text = world.stored.encode()
        assert decode(json.loads(json.dumps(text))) == world.stored
        with pytest.raises(Exception, match="cutOff"):
            decode({**text, "cutOff": {"0": 3}})
