"""Executors that a job asked for and does not have are said, in time and no sooner."""

import pytest

from backfill_core.pacing.executors import LATE_S, LOOK_EVERY_S, ExecutorCount, executors_wanted

K8S = {"spark.master": "k8s://https://kubernetes.default.svc"}
DYNAMIC = {**K8S, "spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "9"}


def counted(wanted, *counts, every_s=LOOK_EVERY_S):
    """Return what so many counts tell, one after the other."""
    count = ExecutorCount(wanted)
    for number, there in enumerate(counts):
        count = count.seen(there, number * every_s)
    return count


class TestExecutorsThatDoNotCome:
    """A quota that refuses their pods leaves no pod that says so."""

    @pytest.mark.parametrize(("there", "words"), [(0, "0 of 2 executors are running, and nothing"), (1, "1 of 2")])
    def test_are_said_after_a_minute(self, there, words):
        """Not while they start as ever."""
        looks = int(LATE_S / LOOK_EVERY_S)

        assert counted(2, *[there] * looks).warnings == ()
        [warning] = counted(2, *[there] * (looks + 1)).warnings
        assert warning.code == "ExecutorsMissing"
        assert warning.message.startswith(words)

    def test_are_said_no_more_once_they_are_there(self):
        """Nor are those that were lost and come again at once."""
        assert counted(2, 0, 1, 2, every_s=100.0).warnings == ()
        assert counted(2, 0, 0, 2, 0, every_s=50.0).warnings == ()

    def test_are_counted_now_and_then_and_never_of_a_driver_that_works_alone(self):
        """A count is a question to Java."""
        first = ExecutorCount(2)

        assert first.due(0.0)
        assert not first.seen(0, 0.0).due(LOOK_EVERY_S - 0.1)
        assert first.seen(0, 0.0).due(LOOK_EVERY_S)
        assert not ExecutorCount(0).due(1000.0)


class TestHowManyAreWanted:
    """By the settings of the session."""

    @pytest.mark.parametrize(
        ("conf", "wanted"),
        [
            ({**K8S, "spark.executor.instances": "2"}, 2),
            ({**K8S, "spark.executor.instances": "2", "spark.dynamicAllocation.enabled": "false"}, 2),
            ({**DYNAMIC, "spark.dynamicAllocation.minExecutors": "1"}, 1),
            (DYNAMIC, 0),
            (K8S, 0),
            ({"spark.master": "local[2]", "spark.executor.instances": "2"}, 0),
        ],
    )
    def test_is_what_is_asked_for_at_least(self, conf, wanted):
        """A number that follows the load falls to its least when there is nothing to do."""
        assert executors_wanted(conf.get) == wanted
