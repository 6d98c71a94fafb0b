"""A job counts each lost executor once, by a reason from Spark's message."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.executor_losses import POD_REASONS, ExecutorLosses, reason_of
from backfill_core.pacing.executors import LOOK_EVERY_S

KEPT = 100
"""Number of removed executors that Spark lists."""


def exited(code: int, *, reason: str = "", brief: str = "") -> str:
    """Return Spark's message about an executor whose container ended."""
    brief_reason = f"The API gave the following brief reason: {brief}" if brief else ""
    return f"""
The executor with id 7 exited with exit code {code}(SIGKILL, possible container OOM).
{brief_reason}

The API gave the following container statuses:

\t container name: spark-kubernetes-executor
\t container state: terminated
\t exit code: {code}
\t termination reason: {reason}
      """


MESSAGES = {
    exited(137, reason="OOMKilled"): "OOMKilled",
    exited(137, reason="Error"): "Killed",
    exited(143): "Killed",
    exited(52, reason="Error"): "JavaOutOfMemory",
    exited(50): "Ended",
    exited(1): "Ended",
    exited(137, brief="Evicted"): "Evicted",
    exited(137, brief="Preempting"): "Preempting",
    exited(0, brief="OutOfcpu"): "OutOfcpu",
    "The executor with id 3 was deleted by a user or the framework.": "Deleted",
    "The executor with ID 3 (registered at 5 ms) was not found in the cluster at the polling time (9 ms)": "Deleted",
    "Executor heartbeat timed out after 125000 ms": "Unresponsive",
    "Remote RPC client disassociated. Likely due to containers exceeding thresholds, or network issues.": "Disconnected",
    "Executor Process Lost": "Disconnected",
    "Executor decommission: Executor 1 is decommissioned.": "Decommissioned",
    "": "Unknown",
    "something else": "Unknown",
}
RELEASED = ("Executor killed by driver.", "Executor decommission: spark scale down", "Shutting down all executors")


class TestTheReasonOfARemoval:
    """The reason is one word of a fixed list, whatever the message quotes."""

    @pytest.mark.parametrize(("message", "reason"), MESSAGES.items())
    def test_the_reason_is_read_from_sparks_message(self, message: str, reason: str) -> None:
        """The messages are those of Spark 4 on Kubernetes."""
        assert reason_of(message) == reason

    @pytest.mark.parametrize("message", RELEASED)
    def test_an_executor_that_the_job_released_is_no_loss(self, message: str) -> None:
        """Dynamic allocation often lowers the number."""
        assert reason_of(message) is None

    @given(st.text(), st.sampled_from(["", "exited with exit code ", "The API gave the following brief reason: "]))
    def test_the_reason_is_known_for_any_message(self, text: str, before: str) -> None:
        """A pod's message is arbitrary input and must not become a new reason."""
        reasons = {*MESSAGES.values(), *POD_REASONS, None}

        assert reason_of(before + text) in reasons


class TestLostExecutors:
    """Spark lists the last hundred removed executors, so most lists repeat earlier entries."""

    @given(st.lists(st.lists(st.sampled_from([*MESSAGES, *RELEASED]), max_size=KEPT), max_size=6))
    def test_lost_executors_are_counted_once_each(self, batches: list[list[str]]) -> None:
        """The rule holds if Spark still lists all removals since the last list."""
        losses, all_removed = ExecutorLosses(watched=True), list[str]()
        for number, batch in enumerate(batches):
            all_removed += batch
            listed = {str(place): message for place, message in enumerate(all_removed)}
            newest = dict(list(listed.items())[-KEPT:])
            losses = losses.seen(newest, number * LOOK_EVERY_S)

        expected = Counter(MESSAGES[message] for message in all_removed if message in MESSAGES)
        assert losses.counts == expected
        assert len(losses.listed) <= KEPT

    def test_lost_executors_are_polled_occasionally_and_never_for_a_driver_without_executors(self) -> None:
        """Each poll is a call into Java."""
        first = ExecutorLosses(watched=True)

        assert first.due(0.0)
        assert not first.seen({}, 0.0).due(LOOK_EVERY_S - 0.1)
        assert first.seen({}, 0.0).due(LOOK_EVERY_S)
        assert not ExecutorLosses().due(1000.0)
