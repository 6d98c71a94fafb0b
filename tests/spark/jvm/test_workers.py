"""Promises of `jvm.workers`: tasks run concurrently, and the caller gets the error of a task."""

import threading

import pytest

from backfill_spark.jvm.workers import at_once

WAIT_S = 20


class TestAtOnce:
    """At most the given number of tasks runs, each once, and none starts after a failure."""

    @pytest.mark.parametrize(("tasks", "most"), [(0, 4), (1, 4), (9, 4), (3, 1)])
    def test_results_come_in_the_order_of_the_tasks(self, tasks, most):
        """The order in which the tasks end does not matter."""
        assert at_once([lambda number=number: number * number for number in range(tasks)], most) == [
            number * number for number in range(tasks)
        ]

    def test_the_given_number_of_tasks_runs_together(self):
        """Each task waits for all others."""
        together = threading.Barrier(3, timeout=WAIT_S)

        assert sorted(at_once([together.wait] * 3, 3)) == [0, 1, 2]

    def test_no_task_starts_after_an_error(self):
        """Further copies of a failed split are useless."""
        begun = []

        def task(number):
            begun.append(number)
            if number == 1:
                raise OSError(number)

        with pytest.raises(OSError, match="1"):
            at_once([lambda number=number: task(number) for number in range(50)], 1)
        assert begun == [0, 1]
