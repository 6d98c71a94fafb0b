"""Order in which an `Arrangement` reads a source."""

import pytest

from backfill_api.load import load_backfill
from backfill_core.errors import InvalidSpecError
from backfill_spark.opening.key_scan import key_line


def test_a_source_without_a_key_needs_an_order():
    """R-ARR-40: every vnode has a position, so none can be read twice. The source is not opened for the check."""
    spec = load_backfill(
        {
            "apiVersion": "backfill.dev/v1alpha1",
            "kind": "Backfill",
            "metadata": {"name": "job"},
            "spec": {
                "source": {"type": "Delta", "delta": {"path": "/s"}},
                "target": {"delta": {"path": "/t", "writeMode": "Append"}},
                "strategy": {"type": "Arrangement"},
            },
        }
    ).spec

    with pytest.raises(InvalidSpecError, match=r"spec\.strategy\.arrangement\.orderBy is empty") as refused:
        key_line(None, spec, begins=True)

    assert refused.value.hint == "Name the columns to order by."
