"""The number of executors: missing ones are reported in time and no sooner, and another number is requested while the job runs."""

import pytest
from support.tables.jobs import job as resource

from backfill_core.pacing.executors import (
    LATE_S,
    LOOK_EVERY_S,
    ExecutorCount,
    ExecutorRequest,
    executors_wanted,
    fixed_for_session,
    surplus,
)

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


class TestAnotherNumber:
    """A width asks for more or fewer executors while the job runs."""

    def test_a_number_in_force_is_requested_once(self):
        """As long as Spark's settings have the same number, nothing is asked, also not with a replaced executor that is still listed."""
        count, request = counted(2, 3), ExecutorRequest(2)
        assert not request.due(count, 0.0)

        more = count.under(5)
        assert request.due(more, 0.0)
        assert not request.answered(5, "", 0.0).due(more, 100.0)
        assert request.answered(5, "", 0.0).due(more.under(4), LOOK_EVERY_S)

    def test_an_executor_that_was_late_is_removed(self):
        """A pod that was requested earlier may start after the number fell."""
        request = ExecutorRequest(5).answered(2, "", 0.0)

        assert not request.due(ExecutorCount(2, there=2), 100.0)
        assert request.due(ExecutorCount(2, there=3), 100.0)

    def test_a_refused_request_is_reported_and_repeated(self):
        """The job continues with the executors that it has."""
        request, count = ExecutorRequest(2).answered(5, "no route to host", 10.0), ExecutorCount(5)
        [warning] = request.warnings

        assert not request.due(count, 10.0 + LOOK_EVERY_S - 0.1)
        assert request.due(count, 10.0 + LOOK_EVERY_S)
        assert warning.code == "ExecutorsUnchanged"
        assert "stays 2" in warning.message
        assert "no route to host" in warning.message
        assert request.answered(5, "", 20.0).warnings == ()

    def test_a_failed_request_is_repeated_for_the_number_of_before(self):
        """Spark may have taken a part of it, and its warning says that the driver asks again."""
        request = ExecutorRequest(4).answered(8, "a connection was lost", 10.0)

        assert request.due(ExecutorCount(4, there=8), 10.0 + LOOK_EVERY_S)
        again = request.answered(4, "", 20.0)
        assert again.warnings == ()
        assert again.due(ExecutorCount(4, there=8), 20.0 + LOOK_EVERY_S)

    def test_new_executors_get_a_minute_to_start(self):
        """Then they are reported missing; without a number in force the settings decide."""
        looks = int(LATE_S / LOOK_EVERY_S)
        count = counted(2, *[1] * (looks + 1)).under(4)

        assert count.warnings == ()
        assert count.due(LATE_S)
        assert count.under(None).wanted == count.under(4).wanted == 4

    @pytest.mark.parametrize(
        ("busy", "wanted", "removed"),
        [
            ({"1": True, "2": True, "3": True}, 2, ("3",)),
            ({"1": False, "2": True, "10": True, "9": True}, 2, ("1", "10")),
            ({"1": True, "2": False}, 2, ()),
            ({"1": True}, 4, ()),
        ],
    )
    def test_idle_executors_are_removed_first_and_then_the_newest(self, busy, wanted, removed):
        """An idle one loses no task; the newest one has the fewest files of a shuffle."""
        assert surplus(busy, wanted) == removed

    def test_the_number_is_fixed_without_executors_of_its_own(self):
        """A reason of the spec comes first."""
        spec = resource("/a", "/b").spec
        ones, dynamic = (
            {**K8S, "spark.executor.instances": "1"},
            {**DYNAMIC, "spark.dynamicAllocation.minExecutors": "1"},
        )
        alone = resource("/a", "/b", executor={"instances": 0}).spec

        assert "executors" not in fixed_for_session(spec, ones.get, ours=True)
        assert "caller" in fixed_for_session(spec, ones.get, ours=False)["executors"]
        assert "follows the load" in fixed_for_session(spec, dynamic.get, ours=True)["executors"]
        assert "Kubernetes" in fixed_for_session(spec, {"spark.master": "local[2]"}.get, ours=True)["executors"]
        five = {**K8S, "spark.executor.instances": "5"}
        assert "requests 5" in fixed_for_session(spec, five.get, ours=True)["executors"], (
            "no operator set the spec's number"
        )
        assert "instances is 0" in fixed_for_session(alone, {}.get, ours=True)["executors"]
        assert "chunk_rows" in fixed_for_session(spec, {}.get, ours=True)
