"""Shipping of a source whose files differ from its log: refused by name, or corrected."""

import json
import re
import shutil
from pathlib import Path

import pytest
from support.tables.oracle import adds_of

from backfill_core.errors import SourceDamagedError, TargetChangedError, UnsupportedSourceFeatureError
from backfill_spark.delta.log import newest_version

VECTORS = "delta.enableDeletionVectors"


def commit(spark, path, *actions):
    """Write a commit by hand, as a writer that follows no rule."""
    version = newest_version(spark, path).position + 1
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {}}}
    lines = "".join(json.dumps(action) + "\n" for action in (info, *actions))
    Path(path, "_delta_log", f"{version:020d}.json").write_text(lines)


def damage(path, kind):
    """Truncate a file, or change bytes in it."""
    held = path.read_bytes()
    path.write_bytes(held[: len(held) // 2] if kind == "cut" else held[:-6] + b"\xff" * 6)
    Path(path.parent, f".{path.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def rows(spark, replica):
    """A source of two files with deletion vectors."""
    spark.range(0, 60, 1, 2).selectExpr("id", "id * 2 AS v").write.format("delta").option(VECTORS, "true").save(
        replica.source
    )


class TestAVector:
    """A deletion vector is checked where it was copied, before a commit names it."""

    @pytest.mark.parametrize("kind", ["cut", "changed"])
    def test_a_vector_that_cannot_be_read_is_named(self, rows, replica, kind):
        """The target's version could not be read with it."""
        replica.begin()
        replica.sql("DELETE FROM {t} WHERE id = 3")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        damage(vector, kind)

        with pytest.raises(SourceDamagedError, match=vector.name):
            replica.ship()

    def test_a_damaged_vector_of_history_is_named(self, rows, replica):
        """It is copied with its file."""
        replica.sql("DELETE FROM {t} WHERE id = 3")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        damage(vector, "cut")

        with pytest.raises(SourceDamagedError, match=vector.name):
            replica.begin()

    def test_a_file_with_a_vector_at_an_absolute_path_is_decoded(self, spark, rows, replica, tmp_path):
        """The vector is in no folder of the table, so the file is decoded and its copy removed."""
        replica.begin(source={"allowFilesOutside": [str(tmp_path)]})
        replica.sql("DELETE FROM {t} WHERE id IN (3, 4)")
        log = Path(replica.source, "_delta_log", f"{1:020d}.json")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        away = tmp_path / vector.name
        shutil.move(vector, away)
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for vector_fields in (action["add"]["deletionVector"] for action in actions if "add" in action):
            vector_fields.update(storageType="p", pathOrInlineDv=f"file:{away}")
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        Path(log.parent, f".{log.name}.crc").unlink(missing_ok=True)
        Path(log.parent, f"{1:020d}.crc").unlink(missing_ok=True)

        shipped, _ = replica.ship()

        assert replica.equal()
        assert len(shipped.removed) == 1
        assert sorted("/d-" in path for path in adds_of(replica.target)) == [False, True]


class TestAFooter:
    """A footer is read before the first byte of its file is staged, so the source is blamed (fault B15)."""

    @pytest.mark.parametrize("kind", ["cut", "changed"])
    def test_a_footer_that_cannot_be_read_is_named(self, rows, replica, kind):
        """A receipt would blame the target for the damaged copy."""
        file = sorted(Path(replica.source).glob("*.parquet"))[0]
        damage(file, kind)

        with pytest.raises(SourceDamagedError, match=f"the footer of {file.name} of the source cannot be read"):
            replica.begin()
        assert file.name not in {copy.name for copy in Path(replica.target).rglob("*.parquet")}

    def test_a_file_that_grew_is_named(self, rows, replica):
        """A size that differs from the log's is found before the copy."""
        file = sorted(Path(replica.source).glob("*.parquet"))[0]
        other = sorted(Path(replica.source).glob("*.parquet"))[1]
        held = other.read_bytes()
        file.write_bytes(held[:4] + b"\0" * 100 + held[4:])
        Path(file.parent, f".{file.name}.crc").unlink(missing_ok=True)

        with pytest.raises(SourceDamagedError, match=f"{file.name} of the source has .* bytes, but its log records"):
            replica.begin()


class TestAName:
    """A name that another file of the source has taken ends the job, because the target has the old file."""

    @pytest.mark.parametrize("other", ["size", "partition"])
    def test_a_name_of_another_file_is_refused(self, spark, replica, other):
        """The size or a partition value shows that the file is another one."""
        spark.range(0, 9, 1, 1).selectExpr("id", "'a' AS p").write.format("delta").partitionBy("p").save(replica.source)
        replica.begin()
        ((path, add),) = adds_of(replica.source).items()
        if other == "size":
            spark.range(100, 190, 1, 1).write.parquet(f"{replica.source}/other")
            (file,) = Path(replica.source, "other").glob("*.parquet")
            shutil.move(file, Path(replica.source, path))
            add = add | {"size": Path(replica.source, path).stat().st_size, "stats": '{"numRecords":90}'}
        else:
            add = add | {"partitionValues": {"p": "b"}}
        commit(spark, replica.source, {"add": add})

        with pytest.raises(SourceDamagedError, match=re.escape(path.rpartition("/")[2])):
            replica.ship()


class TestAFileOfNobody:
    """A file in the target that corresponds to no file of the source."""

    def test_a_file_without_a_source_is_refused(self, spark, rows, replica):
        """It existed before the job's first commit that checks for foreign commits."""
        replica.begin()
        spark.range(2).selectExpr("id", "id AS v").write.format("delta").mode("append").save(replica.target)
        replica.sql("INSERT INTO {t} VALUES (100, 1)")

        with pytest.raises(TargetChangedError, match="was not made from a file of the source"):
            replica.ship()


class TestANewFeature:
    """A new table feature of the source may change how its files are read."""

    def test_a_new_feature_is_refused_without_schema_change_follow_too(self, spark, rows, replica):
        """No other check would find it."""
        replica.begin()
        protocol = {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors", "notThought"],
            "writerFeatures": ["deletionVectors", "notThought"],
        }  # fmt: skip
        commit(spark, replica.source, {"protocol": protocol})

        with pytest.raises(UnsupportedSourceFeatureError, match="the table feature notThought since version 1"):
            replica.ship(1)


class TestStatisticsUnderAnotherVector:
    """Statistics of a copy are those of its file, even if the source's log now has others."""

    def test_statistics_are_taken_from_the_footer(self, spark, rows, replica):
        """Another engine's log is not trusted, as for a copy. The receipt has the file's statistics."""
        replica.begin()
        before = {path: json.loads(add["stats"]) for path, add in adds_of(replica.target).items()}
        replica.sql("DELETE FROM {t} WHERE id = 3")
        log = Path(replica.source, "_delta_log", f"{1:020d}.json")
        assert '\\"id\\":29' in log.read_text()
        log.write_text(log.read_text().replace('\\"id\\":29', '\\"id\\":7'))
        Path(log.parent, f".{log.name}.crc").unlink(missing_ok=True)

        replica.ship()

        for path, add in adds_of(replica.target).items():
            now = json.loads(add["stats"])
            assert now.pop("tightBounds", False) is False
            assert now == before[path]
        assert spark.read.format("delta").load(replica.target).where("id = 20").count() == 1
