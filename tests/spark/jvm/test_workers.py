"""Promises of `jvm.workers`: tasks run at once, and an error of one is the caller's."""

import threading

import pytest

from backfill_spark.jvm.workers import at_once

WAIT_S = 20


class TestAtOnce:
    """As many as may, each once, and none after a failure."""

    @pytest.mark.parametrize(("tasks", "most"), [(0, 4), (1, 4), (9, 4), (3, 1)])
    def test_results_come_in_the_order_of_the_tasks(self, tasks, most):
        """Whichever ends first."""
        assert at_once([lambda number=number: number * number for number in range(tasks)], most) == [
            number * number for number in range(tasks)
        ]

    def test_so_many_run_together(self):
        """Each of them waits for all others."""
        together = threading.Barrier(3, timeout=WAIT_S)

        assert sorted(at_once([together.wait] * 3, 3)) == [0, 1, 2]

    def test_an_error_ends_it(self):
        """Copies of a split that has failed are of no use."""
        begun = []

        def task(number):
            begun.append(number)
            if number == 1:
                raise OSError(number)

        with pytest.raises(OSError, match="1"):
            at_once([lambda number=number: task(number) for number in range(50)], 1)
        assert begun == [0, 1]
