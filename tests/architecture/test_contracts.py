"""The import contracts of pyproject.toml hold, and each of them catches what it is there for."""

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
# contract (its first words), file to plant, what it says
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
    ("The models", "crds/backfill_api/planted.py", "import pyspark"),
    ("The data plane", f"{SPARK}/planted.py", "import kubernetes"),
    ("The control plane", "operator/backfill_operator/planted.py", "import pyspark"),
    ("A test double", f"{CORE}/planted.py", "from unittest import mock"),
    ("Strategies", f"{CORE}/strategies/planted/__init__.py", "import backfill_core.strategies.snapshot.params"),
    ("Sources", f"{SPARK}/sources/planted/__init__.py", "import backfill_spark.sources.delta.source"),
    ("Sinks", f"{SPARK}/sinks/planted/__init__.py", "import backfill_spark.sinks.delta.sink"),
    ("A source knows no sink", f"{SPARK}/sources/delta/planted.py", "import backfill_spark.sinks.delta.sink"),
    ("A sink knows no source", f"{SPARK}/sinks/delta/planted.py", "import backfill_spark.sources.delta.log"),
]


def lint(folder):
    """Check the contracts of the house in `folder`; return its words."""
    code = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(cache_dir=None))"
    roots = os.pathsep.join(str(folder / root) for root in SOURCE_ROOTS)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env=dict(os.environ, PYTHONPATH=roots, COLUMNS="250"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the house in which walls may be broken."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class TestTheContracts:
    """Arrows between the floors point down."""

    def test_all_are_kept(self, house):
        """In the house as it stands."""
        code, words = lint(house)

        assert code == 0, words
        assert f"{len(CONTRACTS)} kept, 0 broken" in words

    @pytest.mark.parametrize(
        ("contract", "file", "line"), PLANTED, ids=[f"{file}: {line}" for _, file, line in PLANTED]
    )
    def test_a_planted_violation_is_caught(self, house, contract, file, line):
        """By the contract that names it."""
        planted = house / file
        planted.parent.mkdir(exist_ok=True)
        planted.write_text(f'"""Planted."""\n\n{line}\n')

        code, words = lint(house)

        planted.unlink()
        if not any(planted.parent.iterdir()):
            planted.parent.rmdir()
        broken = [words_of for words_of in words.splitlines() if words_of.endswith("BROKEN")]
        assert code == 1, words
        assert any(words_of.startswith(contract) for words_of in broken), words

    def test_every_contract_has_a_planted_violation(self):
        """A contract that was never seen to break may not be able to."""
        assert [name for name in CONTRACTS if not any(name.startswith(words) for words, _, _ in PLANTED)] == []
