"""The import contracts of pyproject.toml hold, and each of them catches its violation."""

import os
import shutil
import subprocess
import sys
import tomllib

import pytest
from support.repository import ROOT, SOURCE_ROOTS

CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]

CORE, SPARK = "spark_app/backfill_core", "spark_app/backfill_spark"
# contract (its first words), file to plant, import in the file
PLANTED = [
    ("The floors", f"{CORE}/planted.py", "import backfill_spark"),
    ("The floors", f"{SPARK}/planted.py", "import backfill_operator"),
    ("The floors", "operator/backfill_operator/planted.py", "import backfill_spark"),
    ("The floors", f"{SPARK}/planted.py", "import backfill_cli"),
    ("The floors", "crds/backfill_api/planted.py", "import backfill_core"),
    ("The command line needs", "spark_app/backfill_cli/planted.py", "import backfill_operator"),
    ("The command line is", "spark_app/backfill_cli/planted.py", "import backfill_spark.driver.plan"),
    ("The command line is", "spark_app/backfill_cli/planted.py", "import backfill_core.errors"),
    ("The rules know", f"{CORE}/planted.py", "import time"),
    ("The rules know", f"{CORE}/strategies/planted.py", "from random import choice"),
    ("The rules know", f"{CORE}/planted.py", "import threading"),
    ("The rules know", f"{CORE}/planted.py", "from pyspark.sql import functions"),
    ("The block of a job", "spark_app/backfill_console/planted.py", "import time"),
    ("The block of a job", "spark_app/backfill_console/planted.py", "import kubernetes"),
    ("Only the terminal", "spark_app/backfill_console/planted.py", "from rich.text import Text"),
    ("The floors", "spark_app/backfill_console/planted.py", "import backfill_core"),
    ("The floors", "spark_app/backfill_console/planted.py", "import backfill"),
    ("The page needs", "spark_app/backfill_page/planted.py", "import backfill_core.errors"),
    ("The page needs", "spark_app/backfill_page/planted.py", "import kubernetes"),
    ("Views of the page", "spark_app/backfill_page/views/planted.py", "import time"),
    ("Rooms of the page", "spark_app/backfill_page/views/planted.py", "import backfill_page.server.access"),
    ("Only the two ways in", "spark_app/backfill/planted.py", "import backfill_page"),
    ("The models", "crds/backfill_api/planted.py", "import pyspark"),
    ("The data plane", f"{SPARK}/planted.py", "import kubernetes"),
    ("Rooms of the driver", f"{SPARK}/file_copies/planted.py", "import backfill_spark.driver.job_context"),
    ("Rooms of the driver", f"{SPARK}/ports/planted.py", "import backfill_spark.rows.transform"),
    ("Rooms of the core", f"{CORE}/protocol/planted.py", "import backfill_core.pacing.sizing"),
    ("The control plane", "operator/backfill_operator/planted.py", "import pyspark"),
    ("The plug-in of kubectl", "operator/backfill_kubectl/planted.py", "import backfill_operator.kube.client"),
    ("The plug-in of kubectl", "operator/backfill_kubectl/planted.py", "import pyspark"),
    ("The floors", "operator/backfill_kubectl/planted.py", "import backfill_cli"),
    ("Rooms of the plug-in", "operator/backfill_kubectl/decisions/planted.py", "import backfill_kubectl.cluster.api"),
    ("A test double", f"{CORE}/planted.py", "from unittest import mock"),
    ("Strategies", f"{CORE}/strategies/planted/__init__.py", "import backfill_core.strategies.snapshot.params"),
    ("Sources", f"{SPARK}/sources/planted/__init__.py", "import backfill_spark.sources.delta.source"),
    ("Sinks", f"{SPARK}/sinks/planted/__init__.py", "import backfill_spark.sinks.delta.sink"),
    ("A source knows no sink", f"{SPARK}/sources/delta/planted.py", "import backfill_spark.sinks.delta.sink"),
    ("A sink knows no source", f"{SPARK}/sinks/delta/planted.py", "import backfill_spark.sources.delta.log"),
    (
        "Rooms of the operator",
        "operator/backfill_operator/kube/planted.py",
        "import backfill_operator.reconcile.reconciler",
    ),
]


def lint(folder):
    """Check the project's contracts in `folder`; return the exit code and the output."""
    code = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(cache_dir=None))"
    roots = os.pathsep.join(str(folder / root) for root in SOURCE_ROOTS)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env=dict(os.environ, PYTHONPATH=roots, COLUMNS="250"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def broken(output):
    """Return the output below the heading of each broken contract, by the contract's name."""
    lines = output.partition("Broken contracts")[2].splitlines()
    headings = [at for at, line in enumerate(lines) if line in CONTRACTS]
    ends = [*headings[1:], len(lines)]
    return {lines[at]: "\n".join(lines[at:end]) for at, end in zip(headings, ends, strict=True)}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the packages in which files may be planted."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def linted(house):
    """The exit code and the output for the unchanged packages, then with every violation planted at once.

    The graph of imports takes seconds to build. The planted modules have different names, so the output still shows
    which contract caught which.
    """
    clean = lint(house)
    for number, (_, file, line) in enumerate(PLANTED):
        planted = house / file.replace("planted", f"planted_{number}")
        planted.parent.mkdir(exist_ok=True)
        planted.write_text(f'"""Planted."""\n\n{line}\n')
    return clean, lint(house)


class TestTheContracts:
    """Arrows between the layers point down."""

    def test_all_contracts_are_kept(self, linted):
        """The packages are unchanged."""
        (code, output), _ = linted

        assert code == 0, output
        assert f"{len(CONTRACTS)} kept, 0 broken" in output

    @pytest.mark.parametrize("number", range(len(PLANTED)), ids=[f"{file}: {line}" for _, file, line in PLANTED])
    def test_a_planted_violation_is_caught(self, linted, number):
        """The contract with this name catches it."""
        contract, file, _ = PLANTED[number]
        _, (code, output) = linted
        module = file.split("/", 1)[1].removesuffix(".py").removesuffix("/__init__").replace("/", ".")

        caught = [text for name, text in broken(output).items() if name.startswith(contract)]

        assert code == 1, output
        assert any(module.replace("planted", f"planted_{number} ->") in text for text in caught), output

    def test_every_contract_has_a_planted_violation(self):
        """A contract that was never seen to break may not be able to."""
        assert [name for name in CONTRACTS if not any(name.startswith(prefix) for prefix, _, _ in PLANTED)] == []
