"""A user has the wheel and no clone: each command works, or prints how to install the missing package."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.repository import ROOT

BASE = ["pydantic", "pydantic_core", "annotated_types", "typing_extensions.py", "typing_inspection", "yaml", "_yaml"]
CLI = ["click", "rich", "pygments", "markdown_it", "mdurl"]
SPEC = """
apiVersion: backfill.dev/v1alpha1
kind: Backfill
metadata: {name: orders}
spec:
  source: {type: Delta, delta: {path: ./orders, key: [id]}}
  target: {type: Delta, delta: {path: ./copy}}
"""


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel, outside the clone; `run(packages, …)` runs `backfill …` in it with only these packages."""
    home = tmp_path_factory.mktemp("home")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "v")], check=True)
    python = home / "v" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    (home / "orders.yaml").write_text(SPEC)
    site = next((home / "v" / "lib").glob("python*/site-packages"))
    ours = Path(sysconfig.get_path("purelib"))

    def run(packages, *arguments):
        for link in site.iterdir():
            if link.is_symlink():
                link.unlink()
        for name in packages:
            if (ours / name).exists():
                (site / name).symlink_to(ours / name)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL", "PYTHON"))}
        return subprocess.run(
            [home / "v" / "bin" / "backfill", *arguments],
            cwd=home, env=environ | {"XDG_STATE_HOME": str(home / "state")}, capture_output=True, text=True,
        )  # fmt: skip

    return run


class TestTheWheel:
    def test_the_wheel_contains_its_data_files(self, wheel):
        """The checksums of the jars are outside the packages in a clone."""
        held = set(zipfile.ZipFile(wheel).namelist())

        assert {
            f"backfill_spark/jvm/{name}"
            for name in (
                "jars.sha256",
                "pools.xml",
                "log4j2.properties",
                "log4j2-pod.properties",
                "log_stores/BackfillS3LogStore.java",
                "log_stores/BackfillLocalLogStore.java",
                "object_store/BackfillFileCopies.java",
                "object_store/BackfillStoreCopies.java",
            )
        } <= held
        assert {"backfill/__init__.py", "backfill/py.typed"} <= held
        assert {f"backfill_page/{name}" for name in ("static/vendor/htmx.min.js", "templates/base.html")} <= held
        text = zipfile.ZipFile(wheel).read("backfill_spark/jvm/jars.sha256").decode()
        assert text == (ROOT / "requirements" / "jars.sha256").read_text()

    def test_the_wheel_shows_a_page_without_links_into_the_repository(self, wheel):
        """A package index has no such files: the links and the picture would be dead."""
        archive = zipfile.ZipFile(wheel)
        shown = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()

        assert "# backfill" in shown
        assert [link for link in re.findall(r"\]\(([^)]+)\)", shown) if "://" not in link] == []

    def test_the_command_without_extras_names_the_line_to_install(self, installed):
        """Without an extra, click is missing too."""
        done = installed(BASE, "--help")

        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "error: PackageMissing: the command line needs click, which is not installed.",
            "hint: pip install 'backfill-operator[cli,spark]'",
        ]

    def test_status_and_commands_need_no_spark(self, installed):
        """A machine that only sends commands needs no Spark."""
        checked = installed(BASE + CLI, "validate", "-f", "orders.yaml")
        asked = installed(BASE + CLI, "status", "-f", "orders.yaml")
        listed = installed(BASE + CLI, "jobs")

        assert (checked.returncode, asked.returncode, listed.returncode) == (0, 4, 0), checked.stderr + asked.stderr
        assert "bug" not in checked.stderr + asked.stderr + listed.stderr

    @pytest.mark.parametrize(
        ("arguments", "packages", "lacks"),
        [
            (["plan", "-f", "orders.yaml"], [], "py4j|prometheus_client"),
            (["run", "-f", "orders.yaml"], ["py4j"], "prometheus_client|pyspark"),
            (["verify", "-f", "orders.yaml"], ["prometheus_client"], "py4j"),
        ],
        ids=["plan", "run", "verify"],
    )
    def test_a_command_names_its_missing_package(self, installed, arguments, packages, lacks):
        """The hint prints the line that installs it; "this is a bug" would send users to the wrong place."""
        done = installed(BASE + CLI + packages, *arguments)

        assert done.returncode == 2
        error, hint = done.stderr.splitlines()[-2:]
        assert re.fullmatch(f"error: PackageMissing: this command needs (?:{lacks}), which is not installed.", error)
        assert hint == "hint: pip install 'backfill-operator[cli,spark]'"
