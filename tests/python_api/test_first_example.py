"""The first example of the README and the recipe to run a part again work on Spark as a reader types them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from support.repository import ROOT
from support.tables.oracle import rows_in

import backfill
from backfill import Backfill, Settings

ROWS = 10_000
README = (ROOT / "README.md").read_text()
RECIPE = (ROOT / "docs" / "how-do-i.md").read_text().split("## Run a part again\n", 1)[1].split("\n## ", 1)[0]


def block(text: str, language: str) -> str:
    """Return the first block of a language."""
    match = re.search(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    assert match, language
    return match[1]


def part(target: Path, source: Path, first: dict[str, Any]) -> dict[str, Any]:
    """Return the job of the recipe, with the tables, the columns and the condition of the first job."""
    document = yaml.safe_load(block(RECIPE, "yaml"))
    transform, spec = first["spec"]["transform"], document["spec"]
    spec["source"]["delta"]["path"], spec["target"]["delta"]["path"] = str(source), str(target)
    condition = f"{spec['transform']['where']} AND {transform['where']}"
    return {**first, **document, "spec": {**spec, "transform": {**transform, "where": condition}}}


class TestTheFirstExample:
    """A reader copies the blocks of the README one after the other."""

    def test_reader_makes_the_table_copies_it_and_runs_a_part_again(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each block uses the tables of the block before; another engine counts the rows."""
        source, target = tmp_path / "lake" / "orders", tmp_path / "lake" / "orders_copy"
        settings = Settings(state_dir=tmp_path / "state", cores=2)
        monkeypatch.setattr(backfill, "open_session", lambda: spark)
        code = block(README, "python").replace("1_000_000", str(ROWS))
        exec(code.replace("lake/orders", str(source)), {})
        job_file = tmp_path / "orders.yaml"
        job_file.write_text(block(README, "yaml"))

        first = Backfill.load(job_file, settings=settings)
        outcome = first.run(spark)

        kept = sum(row % 500 - 20 > 0 for row in range(ROWS))
        assert outcome.receipt is not None
        assert outcome.receipt.equal
        assert rows_in(str(target)) == kept

        spark.sql(block(RECIPE, "sql").replace("/lake/copy", str(target)))
        lacking = rows_in(str(target))
        again = Backfill.of(part(target, source, yaml.safe_load(block(README, "yaml"))), settings=settings)
        again.run(spark)

        assert lacking < kept
        assert rows_in(str(target)) == kept
        assert first.verify(spark).equal
