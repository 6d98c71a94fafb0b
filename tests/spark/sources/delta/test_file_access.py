"""Files outside the source's folder that its log names: refused before they are read, unless the spec allows them."""

import json
import re
from pathlib import Path

import pytest
from support.tables.jobs import job
from support.tables.oracle import rows_in

from backfill_core.errors import InvalidSpecError
from backfill_core.positions.file_ranges import file_ranges
from backfill_spark.driver.attempt import run_driver
from backfill_spark.settings import DriverSettings
from backfill_spark.sources.delta.source import DeltaTableSource

VECTOR = {"storageType": "u", "offset": 1, "sizeInBytes": 34, "cardinality": 1}
CODE = "a" * 20


class Lake:
    """A source that another party writes, and a table that this party may not read."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.source, self.payroll = folder / "source", folder / "payroll"
        for path in (self.source, self.payroll):
            writer = spark.range(5).selectExpr("id", "id * 2 AS v").coalesce(1).write.format("delta")
            writer.option("delta.enableChangeDataFeed", "true").save(str(path))
        (self.secret,) = self.payroll.glob("*.parquet")

    def commit(self, **action):
        """Write version 1 of the source by hand."""
        given = {"size": self.secret.stat().st_size, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
        ((kind, fields),) = action.items()
        lines = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, {kind: given | fields}]
        log = Path(self.source, "_delta_log", f"{1:020d}.json")
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def add(self, path, **fields):
        self.commit(add={"path": path, "stats": '{"numRecords":5}', **fields})

    def opened(self, *allowed, version=None):
        source = DeltaTableSource(
            self.spark, str(self.source), key=("id",), allow_files_outside=tuple(map(str, allowed))
        )
        source.pin(version)
        return source


@pytest.fixture
def lake(spark, tmp_path):
    return Lake(spark, tmp_path)


SPELLINGS = {
    "parent": "../payroll/{name}",
    "encoded parent": "%2e%2e/payroll/{name}",
    "absolute": "{payroll}/{name}",
    "URI": "file:{payroll}/{name}",
    "link to a file": "link.parquet",
    "link to a folder": "linked/{name}",
    "server": "http://127.0.0.1:9/{name}",
    "query": "../payroll/{name}?/../../source/x",
}


def spelled(lake, spelling):
    """Return a path of the secret file; make the links."""
    (lake.source / "link.parquet").symlink_to(lake.secret)
    (lake.source / "linked").symlink_to(lake.payroll)
    return SPELLINGS[spelling].format(payroll=lake.payroll, name=lake.secret.name)


class TestAFileOutside:
    """Writers of the log must not read another party's file with the job's credentials (fault S3)."""

    @pytest.mark.parametrize("spelling", SPELLINGS)
    def test_a_file_outside_is_refused_in_any_spelling(self, lake, spelling):
        """Each spelling leads to the same file."""
        lake.add(spelled(lake, spelling))

        with pytest.raises(InvalidSpecError, match=r"version 1 of the source .* outside of its folder") as refused:
            lake.opened()
        assert "spec.source.delta.allowFilesOutside" in str(refused.value)
        assert "server" in spelling or f"add {lake.payroll} to" in refused.value.hint

    @pytest.mark.parametrize(
        "read",
        [
            lambda source: source.check_versions(0, 1),
            lambda source: list(source.log_actions(0, 1)),
            lambda source: source.files_of(1),
            lambda source: source.at(1),
            lambda source: source.rows_at(1),
            lambda source: source.key_range(1, source.key_order([("id", False)], field="f"), None, None),
        ],
        ids=["changes", "shipped log", "files", "version", "count", "key range"],
    )
    def test_a_file_outside_is_refused_in_a_later_version(self, lake, read):
        """Each way to read a version has the check."""
        lake.add(spelled(lake, "parent"))
        source = lake.opened(version=0)

        with pytest.raises(InvalidSpecError, match="version 1 of the source"):
            read(source)

    @pytest.mark.parametrize("kind", ["remove", "cdc"])
    def test_a_file_outside_is_refused_as_a_change(self, lake, kind):
        """The change feed reads removed files and change files."""
        lake.commit(**{kind: {"path": spelled(lake, "encoded parent")}})

        with pytest.raises(InvalidSpecError, match="version 1 of the source"):
            lake.opened(version=0).check_versions(0, 1)

    @pytest.mark.parametrize(
        "vector",
        [
            {"pathOrInlineDv": f"../payroll/{CODE}"},
            {"pathOrInlineDv": f"/payroll/{CODE}"},
            {"storageType": "p", "pathOrInlineDv": "file:/payroll/vector.bin"},
        ],
    )
    def test_a_file_outside_is_refused_as_a_deletion_vector(self, lake, vector):
        """A vector is read before the rows that it hides."""
        (own,) = lake.source.glob("*.parquet")
        lake.add(own.name, deletionVector=VECTOR | vector)

        with pytest.raises(InvalidSpecError, match="payroll"):
            lake.opened()

    def test_a_file_outside_ends_the_job_before_the_first_byte_is_staged(self, lake, tmp_path):
        """A replica copies files without reading their rows."""
        lake.add(spelled(lake, "link to a file"))
        target = tmp_path / "target"

        outcome = run_driver(
            job(str(lake.source), str(target), strategy={"type": "Replica"}, source={"key": []}),
            settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=lake.spark,
        )  # fmt: skip

        assert (outcome.reason, outcome.exit_code) == ("InvalidSpec", 20)
        assert re.search(r"link\.parquet, a link to .*payroll", outcome.message)
        assert list(target.rglob("*.parquet")) == []


class TestAnAllowedFile:
    """Allowed files are read, because shallow clones name the files of their origin."""

    @pytest.mark.parametrize("spelling", ["parent", "absolute", "URI", "link to a file", "link to a folder"])
    def test_an_allowed_file_is_read(self, lake, spelling):
        """Each spelling that plain Spark reads is accepted."""
        lake.add(spelled(lake, spelling))
        source = lake.opened(lake.payroll)

        assert source.read(file_ranges((0, 5, 10), 0, 10)).count() == 10
        assert source.at(1).count() == 10

    def test_an_allowed_file_is_read_by_a_replica(self, lake, tmp_path):
        """The spec names the folder. Files outside the source's folder are decoded."""
        lake.add(spelled(lake, "parent"))

        outcome = run_driver(
            job(
                str(lake.source), str(tmp_path / "target"), strategy={"type": "Replica"}, verify="Final",
                source={"key": [], "allowFilesOutside": [str(lake.payroll)]},
            ),
            settings=DriverSettings(state_dir=tmp_path / "state", cores=2), spark=lake.spark,
        )  # fmt: skip

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert rows_in(str(tmp_path / "target")) == 10

    def test_a_file_with_an_absolute_path_in_the_folder_is_read(self, lake):
        """Some writers name each file by an absolute path."""
        (own,) = lake.source.glob("*.parquet")
        (lake.source / "a b").mkdir()
        moved = lake.source / "a b" / "copy.parquet"
        moved.write_bytes(own.read_bytes())
        lake.add(f"file:{lake.source}/a%20b/copy.parquet")

        assert lake.opened().at(1).count() == 10
