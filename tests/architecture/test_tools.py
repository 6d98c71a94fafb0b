"""The tools of the house do what they say: setup names what is missing, the closing line counts, the wheel is whole."""

import importlib.util
import os
import runpy
import subprocess
import sys
import zipfile

import pytest
from support import attack
from support.cluster import harness as cluster_harness
from support.repository import ROOT, packaged


@pytest.fixture
def run_tests(tmp_path, monkeypatch):
    """The program that runs lanes, with a folder of its own for reports."""
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "build-tools" / "run_tests.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REPORTS", tmp_path)
    return module


def report(folder, name, *, tests, failures=0, errors=0, skipped=0):
    """Write what pytest writes."""
    (folder / name).write_text(
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"/></testsuites>'
    )


class TestTheClosingLine:
    """A robot reads the last line and nothing else."""

    def test_it_adds_up_all_reports(self, run_tests, tmp_path, capsys):
        """Errors of fixtures are failures too."""
        report(tmp_path, "rules.xml", tests=10, failures=1, skipped=2)
        report(tmp_path, "spark.xml", tests=5, errors=1)

        run_tests.main(["--sum"])

        assert capsys.readouterr().out == "11 passed, 2 failed, 2 skipped\n"

    def test_a_report_that_was_cut_off_is_a_failure(self, run_tests, tmp_path, capsys):
        """A killed pytest must not look like one that had nothing to do."""
        (tmp_path / "rules.xml").write_text("<testsuites><testsuite tests=")

        run_tests.main(["--sum"])

        assert capsys.readouterr().out == "0 passed, 1 failed\n"

    def test_what_failed_is_told_by_name_with_the_end_of_what_it_said(self, run_tests, tmp_path):
        """A log that was cut to its end still tells which test it was."""
        (tmp_path / "spark.xml").write_text(
            '<testsuites><testsuite><testcase classname="tests.spark.test_seal" name="test_one"/>'
            '<testcase classname="tests.spark.test_seal" name="test_two"><failure message="no">first\nE  1 != 2</failure>'
            "</testcase></testsuite></testsuites>"
        )

        assert run_tests.failures(tmp_path / "spark.xml") == [
            "failure: tests.spark.test_seal.test_two\nfirst\nE  1 != 2"
        ]
        assert run_tests.failures(tmp_path / "missing.xml") == []

    def test_every_folder_of_tests_is_in_a_lane(self, run_tests):
        """A suite that no target runs is no suite."""
        lanes = ("rules", "spark", "jobs", "control", "crash", "e2e", "stores", *run_tests.ATTACKS)
        reached = [ROOT / path for lane in lanes for path in run_tests.folders(lane)]
        there = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
        lost = [one for one in there if sum(one.is_relative_to(path) for path in reached) != 1]

        assert lost in ([], [ROOT / "tests" / "benchmarks"])

    def test_a_lane_without_tests_is_left_out(self, run_tests, capsys):
        """Without a folder pytest would run all that there is."""
        assert run_tests.main(["no_such_lane"]) == 0

        assert capsys.readouterr().out.startswith("0 passed, 0 failed")


class TestHowLongAnAttackLooks:
    """The same few seeds in every merge; fresh ones for as many minutes as are given."""

    @pytest.fixture(autouse=True)
    def told_nothing(self, monkeypatch):
        monkeypatch.setattr(attack, "SECONDS", 0.0)
        monkeypatch.setattr(attack, "ONLY", "")

    def test_a_merge_is_judged_by_the_same_seeds_each_time(self):
        """Else a change would be blamed for what was there before."""
        assert list(attack.seeds(3)) == [0, 1, 2]

    def test_with_time_it_goes_on_until_it_is_used_and_names_each_seed(self, monkeypatch, capsys):
        """The last seed of the output is the one that found something."""
        monkeypatch.setattr(attack, "SECONDS", 0.05)

        tried = list(attack.seeds(3))

        assert len(tried) == len(set(tried)) > 3
        assert f"seed {tried[-1]}\n{len(tried)} seeds tried" in capsys.readouterr().out

    def test_one_seed_can_be_tried_again(self, monkeypatch):
        """What was found once must be seen twice."""
        monkeypatch.setattr(attack, "SECONDS", 60.0)
        monkeypatch.setattr(attack, "ONLY", "17")

        assert list(attack.seeds(3)) == [17]


class TestARunThatRanNothing:
    """Skipped tests look like passed ones in the exit code."""

    @pytest.mark.parametrize(
        ("body", "code"), [("pytest.skip('no node')", 1), ("assert True", 0)], ids=["skipped", "ran"]
    )
    def test_fails(self, run_tests, tmp_path, monkeypatch, capsys, body, code):
        """`make e2e-smoke` ended with 0 on a machine without a cluster."""
        suite = tmp_path / "tests" / "nowhere"
        suite.mkdir(parents=True)
        (suite / "test_one.py").write_text(f"import pytest\n\ndef test_one():\n    {body}\n")
        monkeypatch.setattr(run_tests, "ROOT", tmp_path)

        assert run_tests.main(["nowhere"]) == code
        assert ("no test ran" in capsys.readouterr().out) == bool(code)


class TestATestThatFails:
    """A busy machine fails a test that holds; a defect fails it twice."""

    @pytest.fixture
    def suite(self, run_tests, tmp_path, monkeypatch):
        """A folder for tests that the program finds."""
        folder = tmp_path / "tests" / "nowhere"
        folder.mkdir(parents=True)
        monkeypatch.setattr(run_tests, "ROOT", tmp_path)
        return folder

    def test_passes_when_it_passes_again_and_is_named(self, run_tests, suite, capsys):
        """It is counted once, and a reader of the log can look for its cause."""
        (suite / "test_one.py").write_text(
            "from pathlib import Path\n\ndef test_holds(): pass\n\ndef test_late():\n"
            "    seen = Path(__file__).with_name('seen')\n    there = seen.exists()\n    seen.touch()\n    assert there\n"
        )

        assert run_tests.main(["nowhere"]) == 0
        *_, named, closing = capsys.readouterr().out.splitlines()
        assert named == "passed only when it was run again: tests.nowhere.test_one.test_late"
        assert closing.startswith("2 passed, 0 failed")
        run_tests.main(["--sum"])
        assert capsys.readouterr().out == "2 passed, 0 failed\n"

    def test_fails_when_it_fails_again(self, run_tests, suite, capsys):
        """What it said stands near the end of the log."""
        (suite / "test_one.py").write_text("def test_one(): pass\n\ndef test_two(): assert 1 == 2\n")

        assert run_tests.main(["nowhere"]) == 1
        told = capsys.readouterr().out
        assert "assert 1 == 2" in told
        assert told.splitlines()[-1].startswith("1 passed, 1 failed")

    def test_is_one_of_few_that_run_again(self, run_tests, suite, capsys):
        """Four failures are no bad hour."""
        (suite / "test_one.py").write_text(
            "import pytest\n\n@pytest.mark.parametrize('n', range(4))\ndef test_one(n): assert 0\n"
        )

        assert run_tests.main(["nowhere"]) == 1
        assert "once more" not in capsys.readouterr().out

    def test_is_not_run_again_where_chance_found_it(self, run_tests, tmp_path, monkeypatch, capsys):
        """A row that one kill of many lost is lost, however the next kills end."""
        folder = tmp_path / "tests" / "crash"
        folder.mkdir(parents=True)
        monkeypatch.setattr(run_tests, "ROOT", tmp_path)
        (folder / "test_one.py").write_text("def test_one(): assert 0\n")

        assert run_tests.main(["crash"]) == 1
        assert "once more" not in capsys.readouterr().out

    def test_is_not_needed_for_a_lane_to_fail(self, run_tests, suite, capsys):
        """Pytest may end badly after its last test."""
        (suite / "conftest.py").write_text("def pytest_unconfigure():\n    raise RuntimeError('at the end')\n")
        (suite / "test_one.py").write_text("def test_one(): pass\n")

        assert run_tests.main(["nowhere"]) == 1
        assert "nowhere ended with 1, though no test of it failed" in capsys.readouterr().out


class TestTheHarness:
    """A developer without a cluster learns why."""

    def test_says_what_the_builder_of_a_cluster_said_last(self, tmp_path):
        """It ended with `returned non-zero exit status 1`."""
        kit = tmp_path / "cluster"
        kit.write_text("#!/bin/sh\n[ $1 != base-image ] || { echo 'no space left'; exit 3; }\n")
        kit.chmod(0o755)

        given = {"BACKFILL_TEST_CLUSTER": str(kit), "PATH": ""}
        borrowed = cluster_harness.borrowed_cluster(given, nodes=True)
        with pytest.raises(cluster_harness.NoClusterError, match=r"base-image ended with 3:\nno space left"):
            borrowed.__enter__()


class TestTheBenchmarks:
    """No lane runs them, so a module that moves would leave them behind."""

    @pytest.mark.parametrize("path", sorted((ROOT / "tests" / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
    def test_it_finds_all_that_it_imports(self, path, monkeypatch):
        """One could not be started for a while, and it was noticed when its figures were asked for."""
        monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])

        assert runpy.run_path(str(path))["__doc__"]


class TestSetup:
    """A newcomer is told what to install, not shown a stack trace."""

    @pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "25"])
    def test_a_java_that_spark_does_not_run_on_is_named(self, tmp_path, version):
        """With the one that was found, and the commands that install a right one."""
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)

        done = self.setup(tmp_path)

        assert done.returncode == 1
        assert f"found: {version.split('.')[0]}" in done.stderr
        assert "openjdk-17-jre-headless" in done.stderr

    def test_no_java_at_all_is_said(self, tmp_path):
        """JAVA_HOME is the user's decision, so nothing is installed beside it."""
        done = self.setup(tmp_path)

        assert done.returncode == 1
        assert f"found: none (JAVA_HOME={tmp_path})" in done.stderr

    @staticmethod
    def setup(java_home):
        """Run setup with another Java; it ends before it touches anything."""
        return subprocess.run(
            [ROOT / "build-tools" / "setup.sh"],
            env=dict(os.environ, JAVA_HOME=str(java_home)), capture_output=True, text=True, check=False,
        )  # fmt: skip


class TestTheWheel:
    """One wheel for both halves, so that they cannot disagree about the words."""

    def test_it_holds_every_package_and_its_data(self, tmp_path):
        """At top level: import names never contain the source root."""
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

        names = set(zipfile.ZipFile(next(tmp_path.glob("backfill_operator-*.whl"))).namelist())

        ours = {path.relative_to(ROOT).as_posix().split("/", 1)[1] for path in packaged()}
        assert ours <= names
        assert {"backfill_spark/jvm/log4j2.properties", "backfill_spark/jvm/pools.xml"} <= names
        assert any(name.endswith("licenses/LICENSE") for name in names)
