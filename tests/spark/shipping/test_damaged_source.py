"""A source whose files are not what its log says, shipped: refused by name, or made right."""

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
    """Write a commit by hand, as a writer does that keeps to no rule."""
    version = newest_version(spark, path).position + 1
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {}}}
    lines = "".join(json.dumps(one) + "\n" for one in (info, *actions))
    Path(path, "_delta_log", f"{version:020d}.json").write_text(lines)


def damage(path, kind):
    """Cut a file off, or change bytes in it."""
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
    """Is looked at where it was copied, before a commit names it."""

    @pytest.mark.parametrize("kind", ["cut", "changed"])
    def test_that_cannot_be_read(self, rows, replica, kind):
        """The target's version could not be read."""
        replica.begin()
        replica.sql("DELETE FROM {t} WHERE id = 3")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        damage(vector, kind)

        with pytest.raises(SourceDamagedError, match=vector.name):
            replica.ship()

    def test_of_history(self, rows, replica):
        """It comes with its file."""
        replica.sql("DELETE FROM {t} WHERE id = 3")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        damage(vector, "cut")

        with pytest.raises(SourceDamagedError, match=vector.name):
            replica.begin()

    def test_at_an_absolute_path(self, spark, rows, replica, tmp_path):
        """It lies in no folder of the table: the file is decoded, and its copy goes."""
        replica.begin(source={"allowFilesOutside": [str(tmp_path)]})
        replica.sql("DELETE FROM {t} WHERE id IN (3, 4)")
        log = Path(replica.source, "_delta_log", f"{1:020d}.json")
        (vector,) = Path(replica.source).glob("deletion_vector_*.bin")
        away = tmp_path / vector.name
        shutil.move(vector, away)
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for one in (action["add"]["deletionVector"] for action in actions if "add" in action):
            one.update(storageType="p", pathOrInlineDv=f"file:{away}")
        log.write_text("".join(json.dumps(one) + "\n" for one in actions))
        Path(log.parent, f".{log.name}.crc").unlink(missing_ok=True)
        Path(log.parent, f"{1:020d}.crc").unlink(missing_ok=True)

        shipped, _ = replica.ship()

        assert replica.equal()
        assert len(shipped.removed) == 1
        assert sorted("/d-" in path for path in adds_of(replica.target)) == [False, True]


class TestAFooter:
    """Is read before a byte of its file is staged: the blame stays with the source (fault B15)."""

    @pytest.mark.parametrize("kind", ["cut", "changed"])
    def test_that_cannot_be_read(self, rows, replica, kind):
        """A receipt would blame the target for the damaged copy."""
        file = sorted(Path(replica.source).glob("*.parquet"))[0]
        damage(file, kind)

        with pytest.raises(SourceDamagedError, match=f"the footer of {file.name} of the source cannot be read"):
            replica.begin()
        assert file.name not in {copy.name for copy in Path(replica.target).rglob("*.parquet")}

    def test_of_a_file_that_grew(self, rows, replica):
        """Another size than the log's is found before the copy."""
        file = sorted(Path(replica.source).glob("*.parquet"))[0]
        other = sorted(Path(replica.source).glob("*.parquet"))[1]
        held = other.read_bytes()
        file.write_bytes(held[:4] + b"\0" * 100 + held[4:])
        Path(file.parent, f".{file.name}.crc").unlink(missing_ok=True)

        with pytest.raises(SourceDamagedError, match=f"{file.name} of the source has .* bytes, but its log records"):
            replica.begin()


class TestAName:
    """That another file of the source got ends the job: the target has the old one."""

    @pytest.mark.parametrize("other", ["size", "partition"])
    def test_is_refused(self, spark, replica, other):
        """By its size, or by a partition value."""
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
    """In the target was made of no file of the source."""

    def test_is_refused(self, spark, rows, replica):
        """It was there before the first commit of the job that looked back for others."""
        replica.begin()
        spark.range(2).selectExpr("id", "id AS v").write.format("delta").mode("append").save(replica.target)
        replica.sql("INSERT INTO {t} VALUES (100, 1)")

        with pytest.raises(TargetChangedError, match="was not made from a file of the source"):
            replica.ship()


class TestANewFeature:
    """Of the source may change how its files are read."""

    def test_is_refused_without_schema_change_follow_too(self, spark, rows, replica):
        """Nothing else would ask for it."""
        replica.begin()
        protocol = {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors", "notThought"],
            "writerFeatures": ["deletionVectors", "notThought"],
        }  # fmt: skip
        commit(spark, replica.source, {"protocol": protocol})

        with pytest.raises(UnsupportedSourceFeatureError, match="the table feature notThought since version 1"):
            replica.ship(1)


class TestStatisticsUnderAnotherVector:
    """Are those of the file, whatever the source's log says of it now."""

    def test_are_taken_from_the_footer(self, spark, rows, replica):
        """A log of another engine is not believed, as for a copy; the receipt knows them."""
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
