"""An object that takes too long to read is skipped, and does not delay other objects."""

import itertools
import re
import signal
import threading
import time

import pytest
from support.operators.rig import NAMESPACE, SPEC

from backfill_core.lifecycle.observation import SpecRefused
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.parse import spec_of
from backfill_operator.informer.relist import Relist
from backfill_operator.kube.read_budget import ReadBudgetError, read_budget
from backfill_operator.kube.resources import BACKFILLS
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings


class Endless(dict):
    """A mapping with endless items, as for a reader without a limit."""

    def items(self):
        """Yield the same item again and again."""
        while True:
            yield "a", None


class EndlessText:
    """A value that never returns a string."""

    def __str__(self):
        """Count for ever."""
        return "".join("" for _ in itertools.count())


def raw(**fields):
    metadata = {"name": "orders", "namespace": NAMESPACE, "uid": "uid-1", "resourceVersion": "1"}
    return {"metadata": metadata | fields.pop("metadata", {}), "spec": SPEC} | fields


class TestTheBudget:
    def test_budget_ends_an_expression_of_exponential_time(self):
        """Python's engine checks for signals while it matches."""
        with pytest.raises(ReadBudgetError), read_budget(0.05):
            re.match("(a|a)*b", "a" * 60)

    def test_budget_ends_a_loop(self):
        """Python code receives the signal at its next step."""
        with pytest.raises(ReadBudgetError), read_budget(0.05):
            str(EndlessText())

    def test_inner_block_shares_the_budget_of_the_outer_one(self):
        """The process has one timer, which an inner block must not reset."""
        with pytest.raises(ReadBudgetError), read_budget(0.05), read_budget(60):
            str(EndlessText())

    def test_unused_budget_ends_no_later_code(self):
        """A late signal would end another coroutine."""
        with read_budget(0.05):
            pass
        began = time.process_time()
        while time.process_time() - began < 0.2:
            pass
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)

    def test_budget_does_not_apply_in_other_threads(self):
        """Signals only reach the main thread."""
        errors = []

        def read():
            try:
                with read_budget(0.05):
                    began = time.process_time()
                    while time.process_time() - began < 0.2:
                        pass
            except ReadBudgetError as error:
                errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

        assert not errors


class TestAnObject:
    def test_spec_that_takes_too_long_is_refused(self):
        """The status contains the reason for its author."""
        refused = spec_of(raw(spec=Endless(SPEC)))

        assert refused == SpecRefused(("spec cannot be read: ReadBudgetError: it takes too long to read",))

    def test_object_that_takes_too_long_is_skipped_in_a_list(self):
        """The page continues with the next object."""
        cache, unreadable = Cache(), []
        relist = Relist(
            None, cache, OperatorSettings(), Metrics(cache.phases), enqueue=lambda _: None, monotonic=time.monotonic,
            on_unreadable=lambda plural, error: unreadable.append((plural, str(error))),
        )  # fmt: skip

        for item in (raw(metadata={"resourceVersion": EndlessText()}), raw(metadata={"name": "other"})):
            relist._take(item, BACKFILLS, {})  # noqa: SLF001 - one page of a list

        assert unreadable == [("backfills", "it takes too long to read")]
        assert cache.keys() == [(NAMESPACE, "other")]
