"""Requested executors that a job does not have are reported, in time and no sooner."""

import pytest

from backfill_core.pacing.executors import LATE_S, LOOK_EVERY_S, ExecutorCount, executors_wanted

K8S = {"spark.master": "k8s://https://kubernetes.default.svc"}
DYNAMIC = {**K8S, "spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "9"}


def counted(requested, *counts, every_s=LOOK_EVERY_S):
    """Return the count after these polls, one after the other."""
    count = ExecutorCount(requested)
    for number, present in enumerate(counts):
        count = count.seen(present, number * every_s)
    return count


class TestExecutorsThatDoNotCome:
    """A quota that rejects executor pods leaves no pod that shows it."""

    @pytest.mark.parametrize(("present", "message"), [(0, "0 of 2 executors are running, and nothing"), (1, "1 of 2")])
    def test_missing_executors_are_reported_after_a_minute(self, present, message):
        """A normal start causes no warning."""
        looks = int(LATE_S / LOOK_EVERY_S)

        assert counted(2, *[present] * looks).warnings == ()
        [warning] = counted(2, *[present] * (looks + 1)).warnings
        assert warning.code == "ExecutorsMissing"
        assert warning.message.startswith(message)

    def test_the_warning_ends_once_the_executors_exist(self):
        """Executors that were lost and return at once cause no warning either."""
        assert counted(2, 0, 1, 2, every_s=100.0).warnings == ()
        assert counted(2, 0, 0, 2, 0, every_s=50.0).warnings == ()

    def test_executors_are_counted_occasionally_and_never_for_a_driver_without_executors(self):
        """Each count is a call into Java."""
        first = ExecutorCount(2)

        assert first.due(0.0)
        assert not first.seen(0, 0.0).due(LOOK_EVERY_S - 0.1)
        assert first.seen(0, 0.0).due(LOOK_EVERY_S)
        assert not ExecutorCount(0).due(1000.0)


class TestHowManyAreWanted:
    """The settings of the session determine the number."""

    @pytest.mark.parametrize(
        ("conf", "requested"),
        [
            ({**K8S, "spark.executor.instances": "2"}, 2),
            ({**K8S, "spark.executor.instances": "2", "spark.dynamicAllocation.enabled": "false"}, 2),
            ({**DYNAMIC, "spark.dynamicAllocation.minExecutors": "1"}, 1),
            (DYNAMIC, 0),
            (K8S, 0),
            ({"spark.master": "local[2]", "spark.executor.instances": "2"}, 0),
        ],
    )
    def test_the_requested_number_is_the_configured_minimum(self, conf, requested):
        """Dynamic allocation lowers the number to its minimum in an idle job."""
        assert executors_wanted(conf.get) == requested
