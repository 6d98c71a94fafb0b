"""Errors about long values are explained quickly: the operator explains them beside all its other work."""

import time

import pytest

from backfill_api.crd.explain import nearest, shown


@pytest.mark.parametrize("text", ["v" * 200_000, "Follow " * 30_000])
def test_a_long_word_is_shown_without_looking_at_it_for_long(text):
    """Each of twenty values of 9,000 letters once took a second, in which the operator did nothing else."""
    began = time.process_time()
    shown(text)

    assert nearest(text, ["Follow", "Exit"]) is None
    assert time.process_time() - began < 2
