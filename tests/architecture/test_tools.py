"""The project's tools work: setup names missing programs, the closing line counts all tests, and the wheel is complete."""

import argparse
import contextlib
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import attack, flaky, parts
from support.cluster import harness as cluster_harness
from support.repository import ROOT, packaged, program


def load_run_tests():
    """Return the program that runs lanes as a module."""
    return program("run_tests")


@pytest.fixture
def run_tests(tmp_path, monkeypatch):
    """The program that runs lanes, with a separate folder for reports; its pytest loads no plug-ins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    module = load_run_tests()
    monkeypatch.setattr(module, "REPORTS", tmp_path)
    return module


def report(folder, name, *, tests, failures=0, errors=0, skipped=0):
    """Write a report as pytest does."""
    (folder / name).write_text(
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"/></testsuites>'
    )


class TestTheClosingLine:
    """CI reads only the last line."""

    def test_the_closing_line_adds_up_all_reports(self, run_tests, tmp_path, capsys):
        """Errors of fixtures count as failures."""
        report(tmp_path, "rules.xml", tests=10, failures=1, skipped=2)
        report(tmp_path, "spark.xml", tests=5, errors=1)

        run_tests.main(["--sum"])

        assert capsys.readouterr().out == "11 passed, 2 failed, 2 skipped\n"

    def test_a_truncated_report_is_a_failure(self, run_tests, tmp_path, capsys):
        """A killed pytest must not look like a run without tests."""
        (tmp_path / "rules.xml").write_text("<testsuites><testsuite tests=")

        run_tests.main(["--sum"])

        assert capsys.readouterr().out == "0 passed, 1 failed\n"

    def test_a_failed_test_is_reported_by_name_with_the_end_of_its_message(self, run_tests, tmp_path):
        """A truncated log still names the failed test."""
        (tmp_path / "spark.xml").write_text(
            '<testsuites><testsuite><testcase classname="tests.spark.test_seal" name="test_one"/>'
            '<testcase classname="tests.spark.test_seal" name="test_two"><failure message="no">first\nE  1 != 2</failure>'
            "</testcase></testsuite></testsuites>"
        )

        assert run_tests.failures(tmp_path / "spark.xml") == [
            "failure: tests.spark.test_seal.test_two\nfirst\nE  1 != 2"
        ]
        assert run_tests.failures(tmp_path / "missing.xml") == []

    def test_every_test_module_is_in_one_lane(self, run_tests):
        """A suite that no target runs protects nothing."""
        lanes = (
            "plain",
            "core",
            "control",
            "reconcile",
            "faults",
            "spark",
            "jobs",
            "crash",
            "e2e",
            "metastore",
            "monitoring",
            "stores",
        )
        reached = [ROOT / path for lane in lanes for path in run_tests.folders(lane)]
        modules = (ROOT / "tests").rglob("test_*.py")
        lost = {module.parent for module in modules if sum(module.is_relative_to(path) for path in reached) != 1}

        assert lost <= {ROOT / "tests" / "benchmarks"}

    def test_a_lane_without_tests_is_left_out(self, run_tests, capsys):
        """Without a folder, pytest would run all tests."""
        assert run_tests.main(["no_such_lane"]) == 0

        assert capsys.readouterr().out.startswith("0 passed, 0 failed")


class TestHowLongAnAttackLooks:
    """Each merge tries the same few seeds; a time budget adds fresh seeds."""

    @pytest.fixture(autouse=True)
    def no_budget(self, monkeypatch):
        monkeypatch.setattr(attack, "SECONDS", 0.0)
        monkeypatch.setattr(attack, "ONLY", "")

    def test_each_merge_uses_the_same_seeds(self):
        """Other seeds could blame a change for an older bug."""
        assert list(attack.seeds(3)) == [0, 1, 2]

    def test_a_time_budget_adds_seeds_and_prints_each(self, monkeypatch, capsys):
        """The last printed seed is the one that found the bug."""
        monkeypatch.setattr(attack, "SECONDS", 0.05)

        seeds = list(attack.seeds(3))

        assert len(seeds) == len(set(seeds)) > 3
        assert f"seed {seeds[-1]}\n{len(seeds)} seeds tried" in capsys.readouterr().out

    def test_a_single_seed_can_be_repeated(self, monkeypatch):
        """A bug must be reproducible."""
        monkeypatch.setattr(attack, "SECONDS", 60.0)
        monkeypatch.setattr(attack, "ONLY", "17")

        assert list(attack.seeds(3)) == [17]


class TestARunThatRanNothing:
    """Skipped tests look like passed tests in the exit code."""

    @pytest.mark.parametrize(
        ("body", "code"), [("pytest.skip('no node')", 1), ("assert True", 0)], ids=["skipped", "ran"]
    )
    def test_a_run_of_skipped_tests_fails(self, run_tests, tmp_path, monkeypatch, capsys, body, code):
        """`make e2e-smoke` once ended with 0 on a machine without a cluster."""
        suite = tmp_path / "tests" / "nowhere"
        suite.mkdir(parents=True)
        (suite / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--part')\n")
        (suite / "test_one.py").write_text(f"import pytest\n\ndef test_one():\n    {body}\n")
        monkeypatch.setattr(run_tests, "ROOT", tmp_path)

        assert run_tests.main(["nowhere"]) == code
        assert ("no test ran" in capsys.readouterr().out) == bool(code)


class TestATestThatFails:
    """A failure counts, even if a second run would pass."""

    @pytest.fixture
    def suite(self, run_tests, tmp_path, monkeypatch):
        """A tests folder that the program finds."""
        folder = tmp_path / "tests" / "nowhere"
        folder.mkdir(parents=True)
        monkeypatch.setattr(run_tests, "ROOT", tmp_path)
        (folder / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--part')\n")
        return folder

    def test_a_test_that_passes_on_a_second_run_fails_the_run(self, run_tests, suite, capsys):
        """The report contains the only run."""
        (suite / "test_one.py").write_text(
            "from pathlib import Path\n\ndef test_holds(): pass\n\ndef test_late():\n"
            "    seen = Path(__file__).with_name('seen')\n    there = seen.exists()\n    seen.touch()\n    assert there\n"
        )

        assert run_tests.main(["nowhere"]) == 1
        assert capsys.readouterr().out.splitlines()[-1].startswith("1 passed, 1 failed")
        run_tests.main(["--sum"])
        assert capsys.readouterr().out == "1 passed, 1 failed\n"

    def test_a_failed_test_is_printed_near_the_end_with_its_message(self, run_tests, suite, capsys):
        """A truncated log still names the failed test."""
        (suite / "test_one.py").write_text("def test_one(): pass\n\ndef test_two(): assert 1 == 2\n")

        assert run_tests.main(["nowhere"]) == 1
        printed = capsys.readouterr().out
        assert "assert 1 == 2" in printed
        assert printed.splitlines()[-1].startswith("1 passed, 1 failed")

    def test_a_flaky_test_counts_as_neither_passed_nor_failed(self, run_tests, suite, capsys):
        """Its name and cause are printed before the closing line."""
        (suite / "conftest.py").write_text(
            "import pytest\nfrom support.flaky import report_as_flaky\n\n"
            "def pytest_addoption(parser):\n    parser.addoption('--part')\n\n"
            "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item):\n    outcome = yield\n"
            "    causes = {'nowhere/test_one.py::test_known': 'the broker elects a leader'}\n"
            "    report_as_flaky(outcome.get_result(), causes | {f'tests/{name}': cause for name, cause in causes.items()})\n"
        )
        (suite / "test_one.py").write_text("def test_holds(): pass\n\ndef test_known(): assert False\n")

        assert run_tests.main(["nowhere", "--", "-o", f"pythonpath={ROOT / 'tests'}"]) == 0
        *_, named, closing = capsys.readouterr().out.splitlines()
        assert "test_known: the broker elects a leader" in named
        assert closing.startswith("1 passed, 0 failed, 1 skipped")

    def test_a_lane_can_fail_without_a_failed_test(self, run_tests, suite, capsys):
        """Pytest may fail after its last test."""
        with (suite / "conftest.py").open("a") as conftest:
            conftest.write("\n\ndef pytest_unconfigure():\n    raise RuntimeError('at the end')\n")
        (suite / "test_one.py").write_text("def test_one(): pass\n")

        assert run_tests.main(["nowhere"]) == 1
        assert "nowhere ended with 1, though no test of it failed" in capsys.readouterr().out


class TestTheListOfFlakyTests:
    """The list of flaky tests is short, and each entry has its cause."""

    def test_the_list_of_flaky_tests_is_valid(self):
        """The test reads the list of this project."""
        assert len(flaky.listed()) <= flaky.MAX

    @pytest.mark.parametrize(
        "text",
        ['"a::b" = ""\n', "".join(f'"a::{n}" = "cause"\n' for n in range(flaky.MAX + 1))],
        ids=["no cause", "long"],
    )
    def test_a_list_without_causes_or_with_too_many_tests_is_refused(self, tmp_path, text):
        """An unbounded list would grow."""
        (tmp_path / "flaky.toml").write_text(text)

        with pytest.raises(ValueError, match="at most 5 tests, each with its cause"):
            flaky.listed(tmp_path / "flaky.toml")


class TestTwoRunsInOneClone:
    """Two runs in one clone would overwrite each other's reports."""

    def test_the_second_run_ends_with_one_sentence(self, run_tests, capsys):
        """The message names the process of the first run."""
        with run_tests.only_run(), pytest.raises(SystemExit) as ended:
            run_tests.main(["nowhere"])

        assert ended.value.code == run_tests.USAGE
        assert capsys.readouterr().err == (
            f"tests: another run uses this clone (process {os.getpid()}). Wait until it ends, or use another clone.\n"
        )


@pytest.fixture(scope="module")
def collected():
    """The node ids of each part, as pytest collects them; .ci/run compares the node ids of all folders (`run_tests.py
    --compare`)."""

    inside = ["tests/spark/rows/test_changes.py", "tests/core/pacing/test_ten_seconds.py"]
    return {part: load_run_tests().collected(part, inside) for part in ("first", "rest", "all")}


class TestTheParts:
    """`make test` and `make test-rest` together run each case exactly once."""

    def test_the_parts_have_each_case_exactly_once(self, collected):
        """Their order does not matter."""
        assert collected["all"]
        assert sorted(collected["first"] + collected["rest"]) == sorted(collected["all"])

    def test_every_file_has_a_case_in_the_first(self, collected):
        """`make test` therefore covers each subject."""
        first = {name.split("::")[0] for name in collected["first"]}

        assert {name.split("::")[0] for name in collected["all"]} == first


class TestTheShares:
    """CI runs one share of the tests that `make test` omits. As many merges as there are shares run all of them."""

    def test_shares_have_each_file_exactly_once(self):
        """A file's name decides its share, so all machines agree."""
        files = list((ROOT / "tests").rglob("test_*.py"))
        shares = [{path for path in files if parts.is_in_share(path, 0, number, 3)} for number in (1, 2, 3)]

        assert set.union(*shares) == set(files)
        assert sum(map(len, shares)) == len(files)
        assert min(map(len, shares)) > len(files) / 4

    def test_shares_divide_the_seeds_of_a_file(self):
        """The laws of the simulation are one file, and would be one long share."""
        shares = [
            {seed for seed in range(90) if parts.is_in_share(Path(__file__), seed, number, 3)} for number in (1, 2, 3)
        ]

        assert set.union(*shares) == set(range(90))
        assert [len(seeds) for seeds in shares] == [30, 30, 30]

    @pytest.mark.parametrize("text", ["0/3", "4/3", "1", "x/3", "1/", "-1/3"])
    def test_an_invalid_share_is_refused_by_name(self, text):
        """A share without files would pass without running a test."""
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not K/N"):
            parts.share(text)


class TestTheHarness:
    """The harness tells a developer without a cluster the cause."""

    def test_the_error_contains_the_last_output_of_the_cluster_tool(self, tmp_path, monkeypatch):
        """The message was once only `returned non-zero exit status 1`."""
        monkeypatch.setenv("CLUSTER_HOME", str(tmp_path / "home"))
        kit = tmp_path / "cluster"
        kit.write_text("#!/bin/sh\n[ $1 != base-image ] || { echo 'no space left'; exit 3; }\n")
        kit.chmod(0o755)

        given = {"BACKFILL_TEST_CLUSTER": str(kit), "PATH": ""}
        borrowed = cluster_harness.borrowed_cluster(given, nodes=True)
        with pytest.raises(cluster_harness.NoClusterError, match=r"base-image ended with 3:\nno space left"):
            borrowed.__enter__()

    def test_only_the_last_user_stops_a_cluster_that_a_test_started(self, tmp_path, monkeypatch):
        """Two lanes use one cluster, and the lane that started it may end first."""
        monkeypatch.setenv("CLUSTER_HOME", str(tmp_path / "home"))
        running = tmp_path / "running"
        kit = tmp_path / "cluster"
        kit.write_text(
            f"#!/bin/sh\ncase $1 in up) touch {running} ;; down) rm {running} ;; esac\n"
            f"[ $1 != kubeconfig ] || {{ [ -e {running} ] && echo {running}; }}\n"
        )
        kit.chmod(0o755)
        given = {"BACKFILL_TEST_CLUSTER": str(kit), "PATH": ""}

        with contextlib.ExitStack() as second:
            with cluster_harness.borrowed_cluster(given):
                second.enter_context(cluster_harness.borrowed_cluster(given))
            assert running.exists()
        assert not running.exists()

        running.touch()  # A developer started the cluster.
        with cluster_harness.borrowed_cluster(given):
            pass
        assert running.exists()


class TestTheBenchmarks:
    """No lane runs the benchmarks, so a moved module could break them unnoticed."""

    @pytest.mark.parametrize("path", sorted((ROOT / "tests" / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
    def test_a_benchmark_finds_all_its_imports(self, path, monkeypatch):
        """A benchmark was once broken for a while until its figures were needed."""
        monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])

        assert runpy.run_path(str(path))["__doc__"]


class TestSetup:
    """Setup tells a new developer what to install instead of printing a stack trace."""

    @pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "25"])
    def test_setup_rejects_a_java_version_that_spark_does_not_support(self, tmp_path, version):
        """The message contains the installed version and the commands that install a supported one."""
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)

        done = self.setup(tmp_path)

        assert done.returncode == 1
        assert f"found: {version.split('.')[0]}" in done.stderr
        assert "openjdk-17-jre-headless" in done.stderr

    def test_setup_reports_missing_java(self, tmp_path):
        """JAVA_HOME is the user's decision, so setup installs nothing next to it."""
        done = self.setup(tmp_path)

        assert done.returncode == 1
        assert f"found: none (JAVA_HOME={tmp_path})" in done.stderr

    @staticmethod
    def setup(java_home):
        """Run setup with another Java; setup ends before it changes anything."""
        return subprocess.run(
            [ROOT / "build-tools" / "setup.sh"],
            env=dict(os.environ, JAVA_HOME=str(java_home)), capture_output=True, text=True, check=False,
        )  # fmt: skip


class TestTheWheel:
    """One wheel contains both halves, so that they cannot use different API versions."""

    def test_the_wheel_holds_every_package_and_its_data(self, wheel):
        """Packages are at the top level: import names never contain the source root."""
        names = set(zipfile.ZipFile(wheel).namelist())

        ours = {path.relative_to(ROOT).as_posix().split("/", 1)[1] for path in packaged()}
        assert ours <= names
        assert {"backfill_spark/jvm/log4j2.properties", "backfill_spark/jvm/pools.xml"} <= names
        assert any(name.endswith("licenses/LICENSE") for name in names)
