"""A spec that is edited after the end of its job: it holds already, or it is refused with the reason (faults M2, U2)."""

from dataclasses import replace
from typing import Any

import pytest
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError
from backfill_core.job.after_end import refuse_after_end
from backfill_core.protocol.receipt import Receipt

WHOLE = Receipt(3, 9, 1, 100, 256, "", (), 1.0)


class TestAnEditAfterTheEnd:
    """A user who sets a field and sees no error believes that it is in force."""

    @pytest.mark.parametrize(
        ("spec", "receipt", "field"),
        [
            ({"after": "Follow"}, WHOLE, "spec.after is Follow"),
            ({"after": "Follow", "verify": "Final"}, WHOLE, "spec.after is Follow"),
            ({"verify": "Final"}, None, "spec.verify is Final"),
            ({"verify": "Final"}, replace(WHOLE, complete=False), "spec.verify is Final"),
            ({"verify": "FinalByRows"}, replace(WHOLE, files_by_bytes=2), "spec.verify is FinalByRows"),
        ],
    )
    def test_that_cannot_take_effect_is_refused(
        self, spec: dict[str, Any], receipt: Receipt | None, field: str
    ) -> None:
        """With the field, its value and what to do instead."""
        refused = refuse_after_end(job("/a", "/b", **spec).spec, receipt)

        assert isinstance(refused, InvalidSpecError)
        assert refused.message.startswith(field)
        assert refused.hint

    @pytest.mark.parametrize(
        ("spec", "receipt"),
        [
            ({}, None),
            ({"verify": "Final"}, WHOLE),
            ({"verify": "Final"}, replace(WHOLE, files_by_bytes=2)),
            ({"verify": "FinalByRows"}, WHOLE),
            ({"throttle": {"rowsPerSecond": 5}, "desiredState": "Paused"}, None),
        ],
    )
    def test_that_holds_already_passes(self, spec: dict[str, Any], receipt: Receipt | None) -> None:
        """A scheduler starts a finished job every night; limits and pauses are about work that is done."""
        assert refuse_after_end(job("/a", "/b", **spec).spec, receipt) is None
