"""Damaged files of a copy are copied again from the source, byte by byte. Damage is planted on the disk and in the log."""

import json
from urllib.parse import unquote

import pytest
from pyspark.sql import functions as F
from support.tables.jobs import job, make_kind
from support.tables.oracle import adds_of, coming_back, differences, opened
from support.tables.other_engine import commit_actions, update

from backfill_core.positions.source_names import RowOrder, source_of
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

ROWS = 800
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}}
APPEND = {"source": {"key": []}, "target": {"writeMode": "Append"}}


class Place:
    """A partitioned source with deleted rows, and a finished copy of it."""

    def __init__(self, spark, folder, kind="partitioned", **spec):
        self.spark, self.source, self.target = spark, folder / "s", folder / "t"
        self.settings = DriverSettings(state_dir=folder / "state", cores=2)
        if callable(kind):
            kind(self.source)
        else:
            make_kind(spark, str(self.source), kind)
        if kind == "partitioned":
            spark.sql(f"DELETE FROM delta.`{self.source}` WHERE id % 9 = 4")
        self.job = job(str(self.source), str(self.target), verify="Final", **spec)
        self.run()

    def run(self):
        """Run the job to its end, with the later changes of the source."""
        refreshing = self.settings.model_copy(update={"mode": "refresh"})
        outcome = run_driver(self.job, settings=refreshing, spark=self.spark)
        assert outcome.outcome == "Complete", outcome
        return outcome

    def repair(self, **options):
        """Repair the target."""
        return repair_target(self.job, settings=self.settings, spark=self.spark, **options)

    def adds(self):
        """Return the entries of the target's files, by partition and path."""
        return sorted(adds_of(self.target).values(), key=lambda add: (add["partitionValues"].get("part"), add["path"]))

    def file(self, add):
        """Return the path of a file of the target."""
        return self.target / unquote(add["path"])

    def commit(self, removed, added):
        """Commit file actions to the target, as an engine that checks nothing."""
        commit_actions(self.target, removed, added)

    def truncate(self, add):
        """Cut a file of the target in half."""
        content = self.file(add).read_bytes()
        self.file(add).write_bytes(content[: len(content) // 2])

    def flip(self, add):
        """Flip a bit of a file of the target."""
        content = bytearray(self.file(add).read_bytes())
        content[len(content) // 2] ^= 1
        self.file(add).write_bytes(content)

    def rewrite(self, add, change):
        """Replace a file of the target by one with changed rows, under a name of the same source file."""
        other = add | {"path": add["path"].replace(".parquet", f"-{len(self.adds())}.parquet")}
        rows, made = change(self.spark.read.parquet(str(self.file(add)))), self.target.parent / "made"
        rows.coalesce(1).write.mode("overwrite").parquet(str(made))
        statistics = json.dumps({"numRecords": rows.count()})
        (part,) = made.glob("*.parquet")
        part.rename(self.file(other))
        self.commit([add], [other | {"size": self.file(other).stat().st_size, "stats": statistics}])

    def differences(self):
        """Return the differences between the rows of both tables."""
        return differences(str(self.target), str(self.source))


class TestARepairOfFiles:
    """Damaged copies are replaced, and files that fit stay."""

    @pytest.mark.parametrize(("kind", "spec"), [("partitioned", REPLICA), ("plain", APPEND)], ids=["replica", "append"])
    def test_truncated_changed_and_lost_files_are_copied_again(self, spark, tmp_path, kind, spec):
        """No reader of rows is needed, and no commit shows this damage."""
        place = Place(spark, tmp_path, kind, **spec)
        truncated, flipped, lost, *others = place.adds()
        place.truncate(truncated)
        place.flip(flipped)
        place.file(lost).unlink()
        damaged = opened(str(place.target)).version()

        counted = place.repair(dry_run=True)

        assert opened(str(place.target)).version() == damaged
        assert (counted.files_copied, counted.files_removed, counted.rows.deleted) == (3, 3, 0)

        done = place.repair()

        assert place.differences() == []
        assert (done.receipt.equal, done.receipt.files_by_bytes, done.version) == (True, len(others) + 3, damaged + 2)
        assert {add["path"] for add in others} < adds_of(place.target).keys()
        assert verify_offline(place.job, settings=place.settings, spark=spark)[0].equal
        assert coming_back(place.target) == []
        assert place.repair().version is None

    def test_a_replica_continues_after_foreign_commits_are_repaired(self, spark, tmp_path):
        """Removed, doubled and changed entries: without a repair, a replica refuses to continue."""
        place = Place(spark, tmp_path, **REPLICA)
        adds = place.adds()
        lost, twice, moved, bare = adds[:4]
        bare = next(add for add in adds[3:] if "deletionVector" in add)
        second = twice | {"path": twice["path"].replace("-0.parquet", "-1.parquet")}
        place.file(second).write_bytes(place.file(twice).read_bytes())
        place.commit(
            [lost, bare],
            [
                second,
                moved | {"partitionValues": {"part": "7"}},
                {name: value for name, value in bare.items() if name != "deletionVector"},
            ],
        )
        place.spark.sql(f"INSERT INTO delta.`{place.target}` VALUES (5000, 1, 'other')")
        assert place.differences() != []

        done = place.repair()

        assert place.differences() == []
        assert (done.receipt.equal, done.receipt.files_by_bytes) == (True, len(adds))
        update(str(place.source), "id = 8", name="'later'")
        assert place.run().reason == "Complete"
        assert place.differences() == []

    def test_a_replica_of_chosen_rows_is_repaired_by_the_files_of_its_wrong_rows(self, spark, tmp_path):
        """Its files were decoded, so that only rows tell which file is wrong."""
        place = Place(spark, tmp_path, **REPLICA, transform={"select": ["id", "part", "upper(name) AS name"]})
        place.spark.sql(f"UPDATE delta.`{place.target}` SET name = 'x' WHERE id = 8")

        done = place.repair()

        view = {row["id"]: row["name"] for row in spark.read.format("delta").load(str(place.target)).collect()}
        assert (done.receipt.equal, len(view), view[8]) == (True, ROWS, "N8")


MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"


@pytest.fixture
def dropped(spark, tmp_path):
    """A finished replica with two decoded files, which had a column that the source has dropped, and two whole copies."""

    def make(source):
        table = f"delta.`{source}`"
        spark.sql(f"CREATE TABLE {table} (id LONG, secret STRING, name STRING) USING delta TBLPROPERTIES ({MAPPED})")
        spark.sql(f"INSERT INTO {table} SELECT id, concat('s', id), concat('n', id) FROM range(0, 40, 1, 2)")
        spark.sql(f"ALTER TABLE {table} DROP COLUMN secret")
        spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id) FROM range(40, 80, 1, 2)")

    return Place(spark, tmp_path, make, **REPLICA)


class TestARepairOfDecodedFiles:
    """Rows tell which decoded files are damaged, also next to whole copies, whose bytes are compared."""

    def test_decoded_files_with_wrong_or_missing_rows_are_copied_again_with_a_damaged_whole_copy(self, dropped):
        """The log shows no damage, and an undamaged whole copy proves nothing about decoded files."""
        place = dropped
        files = {add["path"]: add for add in place.adds()}
        decoded, copied = (
            [add for path, add in files.items() if source_of(path).order is order]
            for order in (RowOrder.LOST, RowOrder.KEPT)
        )
        assert (len(decoded), len(copied)) == (2, 2)
        wrong, short = decoded
        place.rewrite(wrong, lambda rows: rows.select(rows[0], F.lit("wrong").alias(rows.columns[1])))
        place.rewrite(short, lambda rows: rows.offset(1))
        place.flip(copied[0])

        named = verify_offline(place.job, settings=place.settings, spark=place.spark)[0]
        done = place.repair()

        assert copied[0]["path"] in {file.path for file in named.files}
        assert named.mismatches
        assert place.differences() == []
        assert (done.receipt.equal, done.files_copied, done.files_removed) == (True, 3, 3)
        assert copied[1]["path"] in adds_of(place.target)
