"""The table of jobs as users see it."""

import pytest

from backfill_kubectl.decisions.attention import JobLine
from backfill_kubectl.drawing.table import job_table, short_count, short_seconds

LINES = [
    JobLine("shop/customers", "Failed", "needs a person", "KeyNotUnique (4 attempts)", 12, 1_200_000, 10_400_000),
    JobLine(
        "shop/orders",
        "Running",
        "runs",
        "throttled by command until 22:10",
        61,
        61_204_118,
        98_000_000,
        82_410,
        65,
        720,
    ),
    JobLine(
        "stock/events",
        "Paused",
        "paused",
        'override, "incident 4711"',
        40,
        4_100_000,
        10_000_000,
        None,
        7200,
        None,
        7200,
    ),
    JobLine("stock/items", "Pending", "waits", "DriversLimited: 8 of 8 run"),
]


class TestTheTable:
    """One line a job; an unknown value is a hyphen."""

    def test_table_is_drawn(self):
        """As in the documentation."""
        assert job_table(LINES) == [
            "NAMESPACE/NAME  STATE         %  ROWS         ROWS/S  LAG    ETA  WHY",
            "shop/customers  ✖ Failed     12  1.2/10.4 M        -  -      -    KeyNotUnique (4 attempts)",
            "shop/orders     ▶ Running    61  61.2/98.0 M  82.4 k  1m05s  12m  throttled by command until 22:10",
            'stock/events    ॥ Paused 2h  40  4.1/10.0 M        -  2h     -    override, "incident 4711"',
            "stock/items     ◌ Pending     -  -                 -  -      -    DriversLimited: 8 of 8 run",
        ]

    def test_ascii_table_has_only_ascii(self):
        """Some terminals and pagers show nothing else."""
        assert all(line.isascii() for line in job_table(LINES, columns=70, ascii_only=True))

    @pytest.mark.parametrize("columns", [60, 80, 100])
    def test_only_the_last_column_is_cut(self, columns):
        """A cut name or number would be another one."""
        shown = job_table(LINES, columns=columns)

        assert all(line.startswith(whole[:50].rstrip()) for line, whole in zip(shown, job_table(LINES), strict=True))

    def test_wide_table_adds_attempt_and_driver(self):
        """The reason stays last."""
        heading, row = job_table(
            [JobLine("a/b", "Running", "runs", "x", strategy="Snapshot", attempt=2, driver="b-2-driver", age_s=60)],
            wide=True,
        )

        assert heading.split()[-5:] == ["STRATEGY", "ATTEMPT", "DRIVER", "AGE", "WHY"]
        assert row.split()[-5:] == ["Snapshot", "2", "b-2-driver", "1m", "x"]


class TestAmounts:
    """Durations and counts take few columns."""

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(None, "-"), (0, "0s"), (59, "59s"), (65, "1m05s"), (720, "12m"), (7200, "2h"), (93_600, "1d02h")],
    )
    def test_duration_is_short(self, seconds, shown):
        """Two units at most."""
        assert short_seconds(seconds) == shown

    @pytest.mark.parametrize(
        ("count", "shown"), [(None, "-"), (980, "980"), (82_410, "82.4 k"), (61_204_118, "61.2 M")]
    )
    def test_count_is_short(self, count, shown):
        """In its largest unit."""
        assert short_count(count) == shown
