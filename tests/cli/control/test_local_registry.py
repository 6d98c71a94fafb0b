"""Commands find the drivers of this machine, and one job has one driver."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_core.errors import AlreadyRunningError
from backfill_spark.control.local_registry import LocalRegistry, control_file, left_behind, running
from backfill_spark.settings import DriverSettings

TESTS = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "backfill"


def publish(registry):
    registry.publish(url="http://127.0.0.1:1", token="secret", attempt=3)


class TestTheTokenIsForItsOwnerOnly:
    def test_modes_are_private(self, folder):
        """A process that can read the file can command the job."""
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE(control_file(folder, "a/b").stat().st_mode) == 0o600

    def test_a_prepared_file_does_not_widen_the_mode(self, folder):
        """An existing file keeps its mode when it is written."""
        folder.mkdir(parents=True)
        planted = control_file(folder, "a/b").with_suffix(".new")
        planted.touch(mode=0o666)
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            assert stat.S_IMODE(control_file(folder, "a/b").stat().st_mode) == 0o600


class TestADriverIsFoundWhileItRuns:
    def test_a_driver_is_found_until_it_ends(self, folder):
        """The driver removes its file at the end."""
        with LocalRegistry(folder, "a/b") as registry:
            assert running(folder) == []
            publish(registry)
            (driver,) = running(folder)
            assert (driver.job_id, driver.attempt, driver.token) == ("a/b", 3, "secret")
        assert running(folder) == left_behind(folder) == []

    def test_a_driver_with_a_withdrawn_address_is_not_found(self, folder):
        """A driver that ends is not found while it still cleans up, and still keeps a second driver from starting."""
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            registry.withdraw()
            assert running(folder) == left_behind(folder) == []
            with pytest.raises(AlreadyRunningError), LocalRegistry(folder, "a/b"):
                pass

    def test_a_missing_folder_holds_no_driver(self, folder):
        """The first command on a machine finds no driver, and creates no folder."""
        assert running(folder) == []
        assert not folder.exists()

    def test_two_jobs_do_not_disturb_each_other(self, folder):
        """Job ids may contain slashes and any other character; files are named by the hash of the id."""
        with LocalRegistry(folder, "a/b") as first, LocalRegistry(folder, "../c") as second:
            publish(first)
            publish(second)
            assert sorted(driver.job_id for driver in running(folder)) == ["../c", "a/b"]

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"job_id": "x"}', '{"colour": 1}'])
    def test_a_file_without_an_address_is_ignored(self, folder, text):
        """A foreign file must not break the command line."""
        folder.mkdir(parents=True)
        (folder / "x.json").write_text(text)
        assert running(folder) == []

    def test_a_file_that_names_another_job_is_ignored(self, folder):
        """A copied file would send a command, and the token, to another address."""
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            (folder / "copy.json").write_text(control_file(folder, "a/b").read_text())
            assert len(running(folder)) == 1


class TestOneDriverPerJobAndMachine:
    def test_the_second_driver_is_refused(self, folder):
        """Two drivers would fence each other forever."""
        with LocalRegistry(folder, "a/b"), pytest.raises(AlreadyRunningError) as refused:
            LocalRegistry(folder, "a/b").__enter__()
        assert "'a/b'" in refused.value.message
        assert refused.value.hint

    def test_the_refused_driver_keeps_the_address_of_the_first(self, folder):
        """The first driver must stay reachable."""
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            with pytest.raises(AlreadyRunningError), LocalRegistry(folder, "a/b"):
                pass
            assert len(running(folder)) == 1

    def test_the_lock_is_free_after_the_end(self, folder):
        """A lock file that remains on disk is no lock."""
        for _ in range(2):
            with LocalRegistry(folder, "a/b"):
                pass

    def test_a_search_for_drivers_takes_no_lock(self, folder):
        """`status` in a loop must never keep a driver from starting."""
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            left = control_file(folder, "a/b").read_text()
        control_file(folder, "a/b").write_text(left)
        assert len(left_behind(folder)) == 1
        with LocalRegistry(folder, "a/b"):
            pass


class TestAKilledDriverLeavesNothingToCleanUp:
    def test_sigkill_leaves_no_lock(self, folder, tmp_path):
        """The address stays, the lock does not: the driver is listed as left behind, and the next one starts."""
        environ = {"BACKFILL_STATE_DIR": str(folder), "PYTHONPATH": str(TESTS), "PATH": ""}
        driver = subprocess.Popen(
            [sys.executable, "-m", "support.drivers.fake_driver", "a/b"], stdout=subprocess.PIPE, env=environ, text=True
        )
        assert driver.stdout.readline() == "ready\n"
        assert [entry.pid for entry in running(folder)] == [driver.pid]
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
        assert running(folder) == []
        assert [entry.pid for entry in left_behind(folder)] == [driver.pid]
        with LocalRegistry(folder, "a/b") as registry:
            publish(registry)
            assert len(running(folder)) == 1
        assert json.loads("[]") == left_behind(folder)


class TestSettingsComeFromTheEnvironmentOnce:
    def test_settings_have_documented_names(self, tmp_path):
        """The docs contain these names."""
        settings = DriverSettings.from_environ(
            {"BACKFILL_CORES": "3", "BACKFILL_MEMORY": "1g", "BACKFILL_JARS_DIR": "/jars", "BACKFILL_STATE_DIR": "/state",
             "BACKFILL_CRASH_AT": "before_seal:1"}
        )  # fmt: skip
        assert (settings.cores, settings.memory, settings.jars_dir) == (3, "1g", Path("/jars"))
        assert (settings.state_dir, settings.crash_at) == (Path("/state"), "before_seal:1")

    def test_the_state_folder_follows_xdg(self):
        """XDG_STATE_HOME sets the folder for state."""
        assert DriverSettings.from_environ({"XDG_STATE_HOME": "/x"}).state_dir == Path("/x/backfill")
        assert DriverSettings.from_environ({}).state_dir == Path.home() / ".local/state/backfill"
