"""`kubectl backfill` shows plan, receipt and grid of a status, and accepts any object."""

import json

import pytest
from support.operators.plugin import Plugin
from support.operators.rig import Rig

PLAN = {
    "rows": 4000, "bytes": 123_456, "files": 3, "splits": 2, "estimatedSeconds": 40, "estimatedSecondsLow": 30,
    "estimatedSecondsHigh": 60, "warnings": [{"reason": "RetentionShort", "message": "a week is short", "hint": "make it longer"}],
}  # fmt: skip
EQUAL = {"sourceVersion": 412, "targetVersion": 96, "rows": 98, "mismatches": 0, "epoch": 7, "complete": True}
DIFFERENT = EQUAL | {"mismatches": 2, "mismatchedVnodes": [0, 255], "mismatchMap": "8" + "0" * 62 + "1"}
PROGRESS = {
    "percent": 50, "grid": "f" * 32 + "7" + "0" * 31,
    "partitions": [{"partition": "day=2026-11-03", "rowsDone": 41, "rowsTotal": 100, "filesDone": 1, "filesTotal": 3}],
}  # fmt: skip


async def stored(rig, **status):
    """Create a Backfill with a status, which no operator wrote: the oracle of operators does not apply."""
    rig.oracle.retire()
    rig.create()
    rig.store.patch("backfills", rig.namespace, "orders", {"status": status}, subresource="status")


class TestPlan:
    """A plan is read before it is approved."""

    async def test_plan_names_the_command_that_approves_it(self, tmp_path):
        """Its warnings are shown, too."""
        waits = {
            "type": "AwaitingApproval",
            "status": "True",
            "reason": "AwaitingApproval",
            "lastTransitionTime": "2026-11-26T21:00:00Z",
        }
        async with Rig(start=False) as rig:
            await stored(rig, plan=PLAN, planOf="3f0c9a1b2d4e5f60", phase="AwaitingApproval", conditions=[waits])

            shown = await Plugin(rig, tmp_path).done("plan", "orders")

            assert "4,000" in shown
            assert "RetentionShort: a week is short make it longer" in shown
            assert shown.endswith(f"plan 3f0c9a1b2d4e5f60 waits: kubectl backfill approve {rig.namespace}/orders")

    async def test_job_without_a_plan_names_another_way(self, tmp_path):
        """A plan on a cluster is made only for an approval."""
        async with Rig(start=False) as rig:
            await stored(rig)

            result = await Plugin(rig, tmp_path)("plan", "orders")

            assert result.exit_code == 4
            assert "backfill plan -f FILE" in result.stderr


class TestReceipt:
    """A receipt is the proof that both sides are equal."""

    async def test_equal_receipt_has_its_versions(self, tmp_path):
        """And the exit code 0."""
        async with Rig(start=False) as rig:
            await stored(rig, receipt=EQUAL)

            shown = await Plugin(rig, tmp_path).done("receipt", "orders")

            assert shown == f"{rig.namespace}/orders: equal at source version 412, target version 96 (98 rows)"

    async def test_receipt_that_differs_has_a_map_and_an_exit_code(self, rigs, tmp_path):
        """The first and the last group of vnodes differ."""
        async with rigs(start=False) as rig:
            await stored(rig, receipt=DIFFERENT)

            result = await Plugin(rig, tmp_path)("receipt", "orders")

            assert result.exit_code == 48
            lines = result.stdout.splitlines()
            assert lines[0].endswith("source and target differ in 2 vnodes at source version 412, target version 96")
            assert lines[1] == "vnodes in 256 parts: ■ equal  × differs (2)"
            assert (lines[2], lines[-1], len(lines)) == ("×" + " ■" * 15, "■ " * 15 + "×", 18)

    async def test_receipt_as_json_has_the_fields_of_the_status(self, tmp_path):
        """Programs read them as from the status itself."""
        async with Rig(start=False) as rig:
            await stored(rig, receipt=EQUAL)

            assert json.loads(await Plugin(rig, tmp_path).done("receipt", "orders", "-o", "json")) == EQUAL


class TestGrid:
    """The finished part of the snapshot, part by part."""

    async def test_grid_has_parts_and_partitions(self, rigs, tmp_path):
        """Partitions have rows and files."""
        async with rigs(start=False) as rig:
            await stored(rig, progress=PROGRESS)

            lines = (await Plugin(rig, tmp_path).done("grid", "orders")).splitlines()

            assert lines[0] == f"{rig.namespace}/orders: 50 %, the snapshot in 64 parts"
            assert lines[1].startswith("█" * 32)
            assert lines[1].endswith("·" * 31)
            assert lines[3].split() == ["day=2026-11-03", "41", "41", "of", "100", "1", "of", "3"]

    async def test_job_without_parts_is_explained(self, tmp_path):
        """A topic has none."""
        async with Rig(start=False) as rig:
            await stored(rig)

            result = await Plugin(rig, tmp_path)("grid", "orders")

            assert result.exit_code == 4
            assert "reports no parts of a snapshot" in result.stderr


class TestHostileObjects:
    """A status with anything in it ends in a line, not in a traceback."""

    @pytest.mark.parametrize("command", ["get", "list", "plan", "receipt", "grid", "events"])
    async def test_megabytes_of_a_hostile_status_are_read(self, tmp_path, command):
        """Control characters reach no terminal."""
        message = "\x1b[2J\u202e" + "x" * 1_400_000
        hostile = [{"type": "Stalled", "status": "True", "reason": "SpecRefused", "message": message}]
        async with Rig(start=False) as rig:
            await stored(
                rig, phase="Failed", conditions=hostile, progress={"reason": message, "percent": "many"}, history="none"
            )

            result = await Plugin(rig, tmp_path)(command, *(["orders"] if command != "list" else []))

            assert result.exit_code in (0, 4)
            assert "\x1b[2J" not in result.output
            assert "\u202e" not in result.output
            assert len(result.output) < 100_000


class TestHistory:
    """The attempts of a Backfill: the last five that ended, and the current one."""

    async def test_each_attempt_has_its_duration_and_its_end(self, rigs, tmp_path):
        """The first driver was killed, and the second one runs."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running") and "progress" in rig.status())

            heading, first, second = (await Plugin(rig, tmp_path).done("history", "orders")).splitlines()

            assert heading.split() == ["ATTEMPT", "START", "END", "DURATION", "OUTCOME", "ROWS", "EXIT"]
            assert (first.split()[0], first.split()[-1]) == ("1", "137")
            assert second.split()[0] == "2"
            assert " Running " in second

    async def test_attempts_that_the_status_no_longer_has_are_counted(self, tmp_path):
        """The times of the others are known."""
        times = {"start": "2026-11-26T21:00:00Z", "end": "2026-11-26T21:03:00Z"}
        history = [{"number": number, "reason": "OOMKilled", "exitCode": 137, **times} for number in (3, 4)]
        async with Rig(start=False) as rig:
            await stored(rig, history=history, attempts=4, phase="Failed", receipt=EQUAL)

            result = await Plugin(rig, tmp_path)("history", "orders")

            assert [line.split()[-4:] for line in result.stdout.splitlines()[1:3]] == [
                ["3", "min", "OOMKilled", "137"]
            ] * 2
            assert "4 attempts in all" in result.stderr
            assert "receipt: equal at source version 412" in result.stdout
            attempts = json.loads(await Plugin(rig, tmp_path).done("history", "orders", "-o", "json"))
            assert [(each["number"], each["exitCode"]) for each in attempts] == [(3, 137), (4, 137)]

    async def test_backfill_without_an_attempt_says_so(self, tmp_path):
        """An empty table would look like a fault."""
        async with Rig(start=False) as rig:
            rig.create()

            assert await Plugin(rig, tmp_path).done("history", "orders") == "shop/orders had no attempt yet"
