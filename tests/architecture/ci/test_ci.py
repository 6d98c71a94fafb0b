"""`.ci/run` passes only if every stage that it names ran, or `ALLOW_MISSING` names the stage."""

import shutil
import subprocess

import pytest
from support.repository import ROOT

from backfill_core import strategies

GO = "/usr/local/go/bin/go"
MAKE = '#!/bin/sh\nmkdir -p build/reports\necho "$*" >> "$MADE"\n'
PYTHON = """#!/bin/sh
case "$*" in
*--sum) echo '7 passed, 0 failed' ;;
*audit.py) exit ${AUDIT:-0} ;;
esac
"""
NODE = "#!/bin/sh\n[ $1 != up ] || exit %s\n"
TOOLS = ("bash", "cat", "dirname", "env", "mkdir", "rm", "sh")


def program(path, text):
    """Write an executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class TestAStageThatCannotRun:
    """The last line of a run without Go and without a node once looked like that of a complete run."""

    @pytest.fixture
    def ci(self, tmp_path):
        """Run the script with fakes of make, Python, Go and the kit; return its exit code, its output and the targets."""
        script = (ROOT / ".ci" / "run").read_text()
        assert GO in script
        clone, bin_folder = tmp_path / "clone", tmp_path / "bin"
        program(clone / ".ci" / "run", script.replace(GO, str(tmp_path / "nowhere" / "go")))
        program(clone / ".venv" / "bin" / "python", PYTHON)
        program(bin_folder / "make", MAKE)
        for name in TOOLS:
            (bin_folder / name).symlink_to(shutil.which(name))

        def run(*, kit=True, node=True, go=True, browser=True, npm=True, **variables):
            if kit:
                program(tmp_path / "shared" / "cluster" / "cluster", NODE % (0 if node else 1))
            if go:
                program(bin_folder / "go", "#!/bin/sh\n")
            if browser:
                program(bin_folder / "chromium", "#!/bin/sh\n")
            if npm:
                program(bin_folder / "npm", "#!/bin/sh\n")
            made = tmp_path / "made"
            done = subprocess.run(
                [clone / ".ci" / "run"], env={"PATH": str(bin_folder), "HOME": str(tmp_path), "MADE": str(made)} | variables,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60,
            )  # fmt: skip
            return done.returncode, done.stdout, made.read_text() if made.exists() else ""

        return run

    def test_no_stage_is_missing_on_a_complete_machine(self, ci):
        """The fakes let every stage pass."""
        code, output, made = ci()

        assert (code, output.splitlines()[-1]) == (0, "7 passed, 0 failed")
        assert "not run" not in output
        assert all(
            target in made
            for target in (
                "site",
                "e2e-smoke",
                "test-monitoring",
                "test-kueue",
                "test-stores",
                "crash-stores",
                "crash-kafka",
            )
        )

    def test_two_commits_run_each_half_of_the_long_suites(self, ci, tmp_path):
        """A merge runs a half, which the number of commits chooses."""
        program(tmp_path / "bin" / "git", '#!/bin/sh\necho "$COMMITS"\n')
        _, _, even = ci(COMMITS="10")
        odd = ci(COMMITS="11")[2].removeprefix(even)

        assert ("--share 11/24" in even, "--share 12/24" in odd) == (True, True)
        assert ("--cheap --share 1/2" in even, "--cheap --share 2/2" in odd) == (True, True)
        for crash in {*strategies.discover()} - {"Replica", "SourceSplits"} | {"crash-replica", "crash-kafka"}:
            assert (crash in even) != (crash in odd), crash

    @pytest.mark.parametrize(
        ("missing", "stages"),
        [({"kit": False}, "cluster e2e"), ({"node": False}, "e2e"), ({"go": False}, "stores monitoring")],
        ids=["kit", "node", "Go"],
    )
    def test_a_missing_stage_fails_the_run_unless_it_is_named(self, ci, missing, stages):
        """The output has the reason, the variable that allows it, and a closing line that counts it."""
        first, *_ = stages.split()

        code, output, _ = ci(**missing)
        assert (code, output.splitlines()[-1]) == (1, "7 passed, 1 failed")
        assert f"ci: {first} cannot run: " in output
        assert f"ALLOW_MISSING='{first}'" in output

        code, output, made = ci(**missing, ALLOW_MISSING=stages)
        assert (code, output.splitlines()[-2:]) == (0, [f"ci: not run: {stages}", "7 passed, 0 failed"])
        assert "crash-kafka" in made

    @pytest.mark.parametrize(
        ("audit", "ended"),
        [
            ("75", (0, ["ci: not run: audit", "7 passed, 0 failed"])),
            ("1", (1, ["ci: stage 'audit' failed with status 1", "7 passed, 1 failed"])),
        ],
        ids=["no advisories", "a vulnerability"],
    )
    def test_a_scan_without_advisories_is_only_named(self, ci, audit, ended):
        """Package mirrors lack advisories; a vulnerability fails the run."""
        code, output, _ = ci(AUDIT=audit)

        assert (code, output.splitlines()[-2:]) == ended

    def test_a_machine_that_cannot_install_a_browser_is_only_named(self, ci):
        """The tests of the page are skipped there, and the other stages decide."""
        code, output, _ = ci(browser=False)

        assert (code, output.splitlines()[-2:]) == (0, ["ci: not run: browser", "7 passed, 0 failed"])

    def test_a_machine_without_npm_builds_no_site_and_is_only_named(self, ci):
        """Only the script for diagrams comes from npm."""
        code, output, made = ci(npm=False)

        assert (code, output.splitlines()[-2:]) == (0, ["ci: not run: site", "7 passed, 0 failed"])
        assert "site" not in made.split()

    def test_the_name_of_another_stage_does_not_allow_a_missing_one(self, ci):
        """A name allows exactly its own stage, and no stage whose name begins or ends with it."""
        code, output, _ = ci(go=False, ALLOW_MISSING="cluster e2e crash-stores store")

        assert code == 1
        assert "ci: stores cannot run: " in output
