"""The promise of a limit: any ten seconds have its rows, within 2 %, as long as the machine keeps up (R-SNAP-41)."""

from itertools import accumulate
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from support.simulation.hand_driven import HandDriven

from backfill_core.job.controls import Controls
from backfill_core.job.phase import JobSettings
from backfill_core.protocol.events import Tick, WorkFinished
from backfill_core.protocol.work import SplitStaged, StagedFile, StagedMode

STEP_S = 0.05
SETTLED_S = 3.0
"""Initial time that the tests ignore: the first split is never cut, to learn about the files. Two of the largest files
are ignored too."""

ROW_BYTES = 70
SIZES_S = some.lists(some.floats(0.1, 3.9), min_size=1, max_size=3) | some.lists(
    some.floats(0.1, 10.0), min_size=1, max_size=1
)
"""Files of one size, or of several alternating sizes: the buffer lasts two seconds, during which a file of ten seconds
is not finished."""

RATES = some.sampled_from([100_000, 340_000, 2_000_000])


class Machine:
    """Stages the splits of a job: two at once, and copies files much faster than it decodes them."""

    def __init__(self, rate, sizes_s, mode, *, by_bytes=False, decodes=3.0, warm_s=0.0, late=lambda: 0.0):
        """Take the sizes of files in seconds of rows, alternating; `decodes` times as fast as the limit, once Spark is
        warm."""
        files = [max(1, round(rate * sizes_s[at % len(sizes_s)])) for at in range(round(90 / min(sizes_s)))]
        sizes = tuple(rows * ROW_BYTES for rows in files) if by_bytes else ()
        controls = Controls(bytes_per_s=rate * ROW_BYTES) if by_bytes else Controls(rows_per_s=rate)
        self.job = HandDriven(*files, file_bytes=sizes, settings=JobSettings(), controls=controls)
        self.rate, self.mode, self.decodes, self.warm_s, self.late = rate, mode, decodes, warm_s, late
        self.ends_s = {}

    def let_pass(self, seconds):
        """Let time pass; `late` returns the extra duration of a step."""
        end_s = self.job.now_s + seconds
        while self.job.now_s < end_s:
            self.job.now_s += STEP_S + self.late()
            for work in self.job.running.values():
                if work.work_id not in self.ends_s:
                    self.ends_s[work.work_id] = self.job.now_s + self._takes_s(work)
            for work in [work for work in self.job.running.values() if self.ends_s[work.work_id] <= self.job.now_s]:
                del self.job.running[work.work_id]
                self.job.send(WorkFinished(SplitStaged(work.work_id, self._staged(work))))
            self.job.send(Tick())

    def _mode(self, file_range):
        return self.mode if file_range.whole else StagedMode.DECODED

    def _takes_s(self, work):
        ranges = [file_range for segment in work.segment_ranges for file_range in segment]
        # A file is read once, even if several parts of it are requested.
        decoded = sum(
            {
                file_range.file: file_range.of for file_range in ranges if self._mode(file_range) is StagedMode.DECODED
            }.values()
        )
        copied = sum(file_range.of for file_range in ranges if self._mode(file_range) is not StagedMode.DECODED)
        cold_s = max(0.0, self.warm_s - self.job.now_s) if decoded else 0.0
        return cold_s + 0.1 + decoded / (self.decodes * self.rate) + copied / (10 * self.rate)

    def _staged(self, work):
        return tuple(
            StagedFile(
                f"s{work.work_id}/{segment}/{file_range.file}",
                1,
                file_range.stop - file_range.start,
                segment=segment,
                mode=self._mode(file_range),
            )
            for segment, ranges in enumerate(work.segment_ranges)
            for file_range in ranges
        )

    def errors(self, after_s, seconds=10.0):
        """Return the relative error of each period of this length between two seals."""
        times = [at_s for at_s, _ in self.job.sealed]
        sealed = list(accumulate(rows for _, rows in self.job.sealed))
        points = [point for point in zip(times, sealed, strict=True) if point[0] >= after_s]
        return [
            (rows - first) / ((until_s - since_s) * self.rate) - 1
            for at, (since_s, first) in enumerate(points)
            for until_s, rows in points[at + 1 :]
            if abs(until_s - since_s - seconds) < 0.5
        ]

    @property
    def decoded(self):
        """Decoded rows for each sealed row."""
        ranges = [file_range for work in self.job.begun for segment in work.segment_ranges for file_range in segment]
        decoded = {
            file_range.file: file_range.of for file_range in ranges if self._mode(file_range) is StagedMode.DECODED
        }
        return sum(decoded.values()) / sum(rows for _, rows in self.job.sealed)


class TestAnyTenSeconds:
    """The limit holds over any ten seconds."""

    @settings(max_examples=25)
    @given(RATES, SIZES_S, some.sampled_from([StagedMode.WHOLE, StagedMode.DECODED]), some.booleans())
    @example(340_000, [0.216], StagedMode.WHOLE, True)
    @example(340_000, [0.6], StagedMode.WHOLE, True)
    @example(340_000, [0.19, 0.37, 1.0], StagedMode.WHOLE, False)
    def test_any_ten_seconds_have_the_rows_of_the_limit(self, rate, sizes_s, mode, by_bytes):
        """The files may have any size, and be copied or decoded."""
        machine = Machine(rate, sizes_s, mode, by_bytes=by_bytes)
        machine.let_pass(60.0)
        errors = machine.errors(SETTLED_S + 2 * max(sizes_s))

        assert len(errors) >= 20
        assert max(map(abs, errors)) <= 0.02

    @pytest.mark.parametrize("mode", [StagedMode.WHOLE, StagedMode.DECODED])
    @pytest.mark.parametrize("size_s", [0.1, 0.216, 0.6, 1.08, 2.5])
    @pytest.mark.parametrize("seed", range(3))
    def test_late_barriers_lose_no_rows(self, mode, size_s, seed):
        """A busy machine is occasionally half a second late; a limit that loses this time is missed by a tenth."""
        chance = Random(seed)
        machine = Machine(500_000, [size_s], mode, late=lambda: chance.choice([0.0] * 25 + [0.35, 0.6]))
        machine.let_pass(70.0)
        errors = machine.errors(SETTLED_S + size_s, 50.0)

        assert errors
        assert max(map(abs, errors)) <= 0.02


class TestFilesThatAreCopied:
    """A cut file must be decoded, and other files must not wait for it."""

    @pytest.mark.parametrize(("size_s", "most"), [(0.1, 0.0), (0.17, 0.0), (0.216, 0.06), (0.4, 0.3), (0.9, 0.85)])
    def test_few_copied_files_are_cut(self, size_s, most):
        """Ten seconds tolerate an error of a tenth of a second; files below a fifth of a second are never cut."""
        machine = Machine(500_000, [size_s], StagedMode.WHOLE)
        # The first two splits began before the job had any facts about the files.
        machine.let_pass(60.0)

        assert machine.decoded <= most + 2.0 / 60

    @pytest.mark.parametrize("size_s", [0.216, 0.6, 1.08])
    def test_copied_files_keep_the_limit_while_a_cut_file_is_decoded(self, size_s):
        """The first Spark jobs of a JVM take ten seconds. The error is half a file at both ends, not ten seconds of
        rows."""
        machine = Machine(500_000, [size_s], StagedMode.WHOLE, warm_s=15.0)
        machine.let_pass(20.0)
        errors = machine.errors(SETTLED_S, 10.0)

        assert errors
        assert max(map(abs, errors)) <= 0.02 + size_s / 10

    def test_each_second_has_nearly_the_rows_of_the_limit(self):
        """The error is at most a fifth, for files that are small compared to a second."""
        machine = Machine(500_000, [0.15], StagedMode.WHOLE)
        machine.let_pass(30.0)
        rows = [rows for at_s, rows in machine.job.sealed if at_s > SETTLED_S]

        assert all(count == pytest.approx(500_000, rel=0.2) for count in rows)
