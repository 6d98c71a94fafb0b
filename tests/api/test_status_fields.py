"""Fields of the status that a person watches: the grid, the map of a receipt, the limit in force."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backfill_api.model import known
from backfill_api.status.grid import grid_digits, grid_percents
from backfill_api.status.progress import LimitInForce, Progress, ProgressSummary
from backfill_api.status.receipt import Mismatch, Receipt, ReceiptSummary

PERCENTS = st.lists(st.integers(0, 100), max_size=64)


def document(model: ProgressSummary | ReceiptSummary) -> dict[str, object]:
    """Return the JSON of a model, as a status has it."""
    return json.loads(model.model_dump_json(by_alias=True, exclude_none=True))


class TestTheGrid:
    """One name and one meaning: percents in a driver's report and in Python, 64 digits in a status."""

    def test_a_status_has_a_digit_for_each_part(self) -> None:
        """`f` is all of a part, `0` is none of it, and a part that was begun is neither."""
        summary = ProgressSummary(grid=(100,) * 31 + (99, 1) + (0,) * 31)

        assert document(summary)["grid"] == "f" * 31 + "e1" + "0" * 31

    def test_a_driver_reports_percents(self) -> None:
        """Programs read this list since the first version."""
        report = Progress(grid=(100, 50, 0))

        assert json.loads(report.model_dump_json(by_alias=True))["grid"] == [100, 50, 0]

    @given(percents=PERCENTS)
    def test_one_schema_reads_a_report_and_a_status(self, percents: list[int]) -> None:
        """A viewer needs no second parser for a job on a cluster."""
        summary = ProgressSummary(grid=tuple(percents))
        stored = document(summary)

        assert ProgressSummary.model_validate(stored) == summary
        assert Progress.model_validate(known(Progress, stored)).grid == summary.grid

    @given(percents=PERCENTS.filter(bool))
    def test_digits_round_down_and_only_empty_parts_are_empty(self, percents: list[int]) -> None:
        """100 percent means all rows, also in a digit; the oracle divides each percent by the share of a digit."""
        digits = grid_digits(percents)

        assert len(digits) == 64
        for cell, digit in enumerate(digits):
            percent, level = percents[cell * len(percents) // 64], int(digit, 16)
            assert (level == 15, level == 0) == (percent == 100, percent == 0)
            assert level * 100 <= percent * 15 or level == 1
        assert grid_digits(grid_percents(digits)) == digits

    @pytest.mark.parametrize("text", ["f" * 63, "g" * 64, "F" * 64, "²" * 64, "f" * 65])
    def test_a_text_of_another_form_is_refused(self, text: str) -> None:
        """Every user with the right to edit a status can write any text."""
        with pytest.raises(ValidationError, match="grid"):
            ProgressSummary.model_validate({"grid": text})


class TestTheMapOfAReceipt:
    """256 bits in 64 digits name the vnodes that differ."""

    @given(vnodes=st.integers(1, 32768), data=st.data())
    def test_a_bit_is_set_exactly_for_vnodes_that_differ(self, vnodes: int, data: st.DataObject) -> None:
        """The status lists 16 vnodes at most; a picture needs all of them."""
        differ = data.draw(st.sets(st.integers(0, vnodes - 1), max_size=20))
        receipt = Receipt(
            target_version=1, epoch=1, rows=1, vnodes=vnodes, digest="ab", seconds=1,
            mismatches=tuple(Mismatch(vnode=vnode, source_rows=1, target_rows=0) for vnode in sorted(differ)),
        )  # fmt: skip

        bits = "".join(f"{int(digit, 16):04b}" for digit in receipt.summary.mismatch_map)

        assert len(bits) == 256
        assert {cell for cell, bit in enumerate(bits) if bit == "1"} == {vnode * 256 // vnodes for vnode in differ}

    def test_a_summary_of_an_earlier_build_has_no_map(self) -> None:
        """Empty is not "all equal": a reader then shows the list of the first vnodes."""
        old = ReceiptSummary.model_validate({"targetVersion": 3, "rows": 4, "mismatches": 1, "mismatchedVnodes": [7]})

        assert (old.mismatch_map, old.mismatched_vnodes) == ("", (7,))


class TestTheLimit:
    """The name `from` is a keyword of Python and a field of the API."""

    def test_the_origin_is_from_in_documents(self) -> None:
        """Readers of the JSON see where the limit was set."""
        limit = LimitInForce(rows_per_second=5, origin="Override", by="anna", revision=3)

        assert json.loads(limit.model_dump_json(by_alias=True, exclude_none=True)) == {
            "rowsPerSecond": 5, "from": "Override", "by": "anna", "revision": 3,
        }  # fmt: skip


class TestEarlierBuilds:
    """Documents of earlier builds are read, and theirs read ours."""

    def test_a_status_of_an_earlier_build_is_read(self) -> None:
        """An upgrade must not forget a running job."""
        stored = {"phase": "Snapshot", "percent": 40, "rowsDone": 4, "epoch": 7, "eta": "2030-01-01T00:00:00Z"}

        summary = ProgressSummary.model_validate(stored)

        assert (summary.percent, summary.limit, summary.partitions, summary.grid) == (40, None, (), ())

    def test_a_report_of_an_earlier_driver_is_read(self) -> None:
        """A driver keeps its image while the operator is upgraded."""
        report = Progress.model_validate(
            {"attempt": 1, "grid": [100, 3], "throttleRowsPerSecond": 7, "warnings": ["w"]}
        )

        assert (report.grid, report.throttle_rows_per_second, report.limit) == ((100, 3), 7, None)
