"""The driver of a procedure on a cluster: it performs a switch-over, an undo, an end or a repair, and reports the end to the operator."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.drivers.shared_java import address_of
from support.switch_over.names import ids_in
from support.tables import other_engine
from support.tables.jobs import make_orders, write_yaml

from backfill_api.load import load_backfill
from backfill_api.status.ending import Ending
from backfill_core.source_fence.table_protocol import FENCED, SWITCH
from backfill_spark.delta.log import head_actions
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import perform
from backfill_spark.settings import DriverSettings

KILLED = -9


class DiedError(BaseException):
    """The process of the attempt ends here."""


@pytest.fixture
def pod(spark, tmp_path):
    """Return a function that runs the driver of a procedure: in this process, or, with a deadly point, in a separate one."""
    source, target = str(tmp_path / "orders"), str(tmp_path / "orders_v2")
    make_orders(spark, source, 100, files=2)
    file = tmp_path / "job.yaml"
    write_yaml(file, source, target, after="Follow", verify="Final", barrier={"intervalMs": 200})

    def run(mode, *, dies_at=None, dies_before=None, **spec):
        def starting(step):
            if step == dies_before:
                raise DiedError

        if spec:
            write_yaml(file, source, target, **spec)
        if dies_at is None:
            settings = DriverSettings(state_dir=tmp_path / "state", cores=2, mode=mode)
            job = load_backfill(file.read_text())
            return perform(job, settings=settings, stop=StopSignal(), starting=starting, spark=spark)
        own = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", **address_of(spark)}
        log = tmp_path / "termination.log"
        own |= {"BACKFILL_MODE": mode, "BACKFILL_CRASH_AT": dies_at, "BACKFILL_TERMINATION_LOG": str(log)}
        done = subprocess.run(
            [sys.executable, "-m", "support.drivers.shared_java", str(file)], capture_output=True, text=True, check=False, timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **own}, start_new_session=True,
        )  # fmt: skip
        assert done.returncode == KILLED, done.stdout + done.stderr
        assert not log.exists()
        return None

    return run, source, target


class TestTheDriverOfAProcedure:
    """One attempt performs one procedure; its termination message has the end."""

    def test_continues_a_killed_switch_over_undoes_it_and_refuses_what_is_impossible(self, spark, pod):
        """The attempt after a lost one has the same mode, and finds the mark in the source's log."""
        run, source, target = pod

        run("switch", dies_at="after_switch_step:6")
        assert SWITCH in head_actions(spark, source).metadata["configuration"]
        switched = run("switch")
        undone = run("undo-switch")
        refused = run("complete-switch")

        assert (switched.exit_code, switched.ending.procedure.end) == (0, "Switched")
        assert ids_in(target) == ids_in(source)
        assert (undone.exit_code, undone.ending.procedure.end) == (0, "Undone")
        assert FENCED not in str(head_actions(spark, source).protocol)
        assert (refused.exit_code, refused.ending.reason) == (34, "SwitchBlocked")
        assert (refused.ending.procedure.end, refused.ending.procedure.has_state) == ("Nothing", True)
        assert Ending.read(refused.ending.text()) == refused.ending

        again = run("switch")

        assert again.ending.receipt.equal
        assert again.ending.procedure.version == head_actions(spark, source).version - 2
        assert 0 < again.ending.procedure.unavailable_ms < 60_000
        assert run("complete-switch").ending.procedure.end == "Completed"
        assert run("undo-switch").ending.procedure.has_state is False
        impossible = run("switch", after="Exit")
        assert (impossible.exit_code, impossible.ending.reason, impossible.ending.procedure) == (
            20,
            "InvalidSpec",
            None,
        )

    def test_copies_back_until_an_undo_and_names_a_change_that_it_cannot_copy(self, spark, pod):
        """The attempt after a lost one continues with the position in the source's log."""
        run, source, target = pod
        follows = {"strategy": {"type": "Replica"}, "after": "Follow", "switch": {"keepSource": "Following"}}
        switched = run("switch", barrier={"intervalMs": 200}, **follows)
        assert (switched.ending.procedure.end, switched.ending.procedure.copies_back) == ("Switched", True)
        other_engine.insert(target, "SELECT * REPLACE (CAST(5000 AS BIGINT) AS id) FROM now LIMIT 1")

        run("follow-back", dies_at="after_log_entry:1")
        assert ids_in(source) == ids_in(target) == [*range(100), 5000]
        with ThreadPoolExecutor(1) as other:
            copies = other.submit(run, "follow-back")
            undone = run("undo-switch")
            ended = copies.result()

        assert (undone.exit_code, undone.ending.procedure.end) == (0, "Undone")
        assert ended.ending.procedure is None or ended.ending.procedure.end == "Ended"
        with pytest.raises(DiedError):
            run("switch", dies_before="Releasing")
        spark.sql(f"ALTER TABLE delta.`{target}` ADD COLUMNS (extra INT)")
        broken = run("follow-back")
        assert (broken.exit_code, broken.ending.reason, broken.ending.procedure) == (59, "ReverseEnded", None)
        assert '"stage":"Switched"' in head_actions(spark, source).metadata["configuration"][SWITCH]
