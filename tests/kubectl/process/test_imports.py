"""The plug-in runs where neither Spark nor the operator's packages are installed."""

import subprocess
import sys

import pytest

BLOCKED = (
    "pyspark",
    "py4j",
    "delta",
    "kopf",
    "prometheus_client",
    "aiohttp",
    "backfill_spark",
    "backfill_operator",
    "backfill",
    "backfill_cli",
    "starlette",
    "jinja2",
    "uvicorn",
)
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = ["kubectl-backfill", *{words!r}]
from backfill_kubectl.entry import main
main()
"""


def run(blocked, *words):
    """Run the command in a process in which some packages cannot be imported."""
    program = PROGRAM.format(blocked=set(blocked), words=words)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


class TestImports:
    """`pip install 'backfill-operator[kubectl]'` brings click, rich and kubernetes."""

    @pytest.mark.parametrize(
        "words", [("--help",), ("version", "--client"), ("completion", "bash")], ids=lambda words: words[0]
    )
    def test_command_runs_without_spark_and_operator(self, words):
        """No module of them is imported."""
        done = run(BLOCKED, *words)

        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("package", ["click", "rich", "kubernetes"])
    def test_missing_package_is_named_with_the_command_that_installs_it(self, package):
        """The base package has no command line."""
        done = run((package,), "list")

        assert done.returncode == 2
        assert f"needs {package}, which is not installed" in done.stderr
        assert "pip install 'backfill-operator[kubectl]'" in done.stderr

    def test_missing_package_of_the_page_is_named_with_its_extra(self):
        """The plug-in itself needs no server."""
        done = run(("starlette",), "ui")

        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "error: PackageMissing: this command needs starlette, which is not installed.",
            "hint: pip install 'backfill-operator[kubectl,ui]'",
        ]
