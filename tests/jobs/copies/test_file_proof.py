"""Promises of a receipt about files that were copied: their bytes are read back, and what was planted in a target is found and named."""

import hashlib
import json
from urllib.parse import unquote

import pytest
from support.tables.jobs import job, make_kind
from support.tables.oracle import adds_of

from backfill_core.transfer.copy_digest import TAG
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.settings import DriverSettings

FILES, ROWS = 20, 800
REPLICA = {"source": {"key": []}, "strategy": {"type": "Replica"}, "verify": "Final"}


class Place:
    """A source, and the replica that one job made of it."""

    def __init__(self, spark, folder):
        self.spark, self.source, self.target = spark, folder / "s", folder / "t"
        self.settings = DriverSettings(state_dir=folder / "state", cores=2)
        make_kind(spark, str(self.source), "partitioned")
        spark.sql(f"DELETE FROM delta.`{self.source}` WHERE id % 9 = 4")
        # Kernel writes a checkpoint after each commit: what is read of the target's log comes from one.
        goal = {"properties": {"delta.checkpointInterval": "1"}}
        self.job = job(str(self.source), str(self.target), target=goal, **REPLICA)
        self.outcome = run_driver(self.job, settings=self.settings, spark=spark)

    def verify(self, **asked):
        """Compare both sides without a driver."""
        return verify_offline(self.job, settings=self.settings, spark=self.spark, **asked)[0]

    def commit(self, removed, added):
        """Commit file actions to the target, as an engine that looks at nothing."""
        log = self.target / "_delta_log"
        version = 1 + max(int(file.stem) for file in log.glob("*.json"))
        gone = [
            {name: one[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in one}
            | {"deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}
            for one in removed
        ]
        actions = [{"remove": one} for one in gone] + [{"add": one} for one in added]
        (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(one)}\n" for one in actions))

    def file(self, add):
        """Return where a file of the target lies."""
        return self.target / unquote(add["path"])


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    """One target for all tests, each of which mends what it planted."""
    return Place(spark, tmp_path_factory.mktemp("proof"))


def flipped(path):
    """Flip a bit in the middle of a file; again, and it is as before."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class TestAnUndamagedTarget:
    """Is proven without reading a row, and says so."""

    def test_by_bytes(self, place):
        """Also in the receipt that the job keeps; each file has a digest in the log, and the state has none."""
        stored, found = place.outcome.receipt, place.verify()

        assert (stored.equal, stored.files_by_bytes, stored.rows_by_rows, stored.rows) == (True, FILES, 0, ROWS)
        assert (found.equal, found.files_by_bytes, found.rows_by_rows, found.rows) == (True, FILES, 0, ROWS)
        assert found.digest == stored.digest
        assert all(TAG in one["tags"] for one in adds_of(place.target).values())

    def test_by_rows_where_that_is_asked_for(self, place):
        """The other way to the same answer."""
        found = place.verify(by_rows=True)

        assert (found.equal, found.files_by_bytes, found.rows_by_rows, found.rows) == (True, 0, None, ROWS)


class TestDamageIsFoundAndNamed:
    """Whatever it is, with the file and what differs."""

    def test_a_flipped_bit(self, place):
        """No engine may notice it: no row is read."""
        add = max(adds_of(place.target).values(), key=lambda one: one["path"])
        flipped(place.file(add))

        found = place.verify()
        flipped(place.file(add))

        assert (found.equal, found.mismatches, found.files_by_bytes, found.rows) == (False, (), FILES - 1, ROWS)
        assert [(one.path, "digest" in one.what) for one in found.files] == [(add["path"], True)]

    def test_each_kind_at_once(self, place):
        """A file that is lost, doubled, gone, or under another vector, partition or count; statistics alone are left to rows."""
        adds = sorted(adds_of(place.target).values(), key=lambda one: (one["partitionValues"]["part"], one["path"]))
        gone, lost, twice, count, statistics = adds[:5]
        bare, moved, swapped = adds[5], adds[6], adds[10]
        stats = json.loads(count["stats"])
        second = twice | {"path": twice["path"].replace("-0.parquet", "-1.parquet")}
        place.file(second).write_bytes(place.file(twice).read_bytes())
        away = place.file(gone).rename(place.target / "away")
        tight = json.dumps(json.loads(statistics["stats"]) | {"minValues": {"id": -1}})
        # Under the same vector an entry replaces the one before; under another one it is another file.
        others, same = [lost, bare, swapped], [count, statistics, moved]
        added = [
            count | {"stats": json.dumps(stats | {"numRecords": stats["numRecords"] + 1})},
            statistics | {"stats": tight},
            moved | {"partitionValues": {"part": "7"}},
            second,
            {name: value for name, value in bare.items() if name != "deletionVector"},
            swapped | {"deletionVector": bare["deletionVector"]},
        ]
        place.commit(others, added)

        found = place.verify()
        place.commit(added[3:], [*others, *same])
        away.rename(place.file(gone))

        said = {one.path: one.what for one in found.files}
        names = {hashlib.sha256(path.encode()).hexdigest()[:32]: path for path in adds_of(place.source)}
        (of_lost,) = (path for tag, path in names.items() if tag in lost["path"])
        assert (found.equal, found.complete, len(found.mismatches) > 0) == (False, True, True)
        assert said[gone["path"]] == "it does not exist"
        assert "no copy" in said[of_lost]
        assert "more than once" in said[second["path"]]
        assert f"{stats['numRecords'] + 1} rows" in said[count["path"]]
        assert "hides 0 rows" in said[bare["path"]]
        assert "partition value part is '7'" in said[moved["path"]]
        assert "hides other rows" in said[swapped["path"]]
        assert "statistics" in said[statistics["path"]]
        assert len(said) == 8
        assert place.verify().files_by_bytes == FILES

    def test_a_vector_whose_file_is_damaged(self, place):
        """Deleted rows would come back, or no engine could read the file."""
        vector = next(place.target.rglob("deletion_vector_*.bin"))
        content = vector.read_bytes()
        vector.write_bytes(content[:3] + bytes(len(content) - 3))

        found = place.verify()
        vector.write_bytes(content)

        assert not found.equal
        assert found.files
        assert all("deletion vector cannot be read" in one.what for one in found.files)


class TestStatisticsOfTheLog:
    """Readers skip files by them, so rows that they exclude are lost to every filter (fault D14)."""

    def with_bounds(self, place, **bounds):
        """Return the entry of a file whose ids go beyond 5, and the same with other bounds of its ids."""
        add = next(one for one in adds_of(place.target).values() if json.loads(one["stats"])["maxValues"]["id"] > 5)
        statistics = json.loads(add["stats"])
        for kind, value in bounds.items():
            statistics[kind] = statistics[kind] | {"id": value}
        return add, add | {"stats": json.dumps(statistics)}

    @pytest.mark.parametrize("by", [{}, {"by_rows": True}, {"statistics": True}], ids=str)
    @pytest.mark.parametrize("wrong", [{"maxValues": 5}, {"nullCount": 1}], ids=str)
    def test_a_file_with_wrong_ones_is_named_with_the_column(self, place, by, wrong):
        """Its rows are all there, and no reader with a filter finds them."""
        add, changed = self.with_bounds(place, **wrong)
        place.commit([], [changed])
        found = place.verify(**by)
        place.commit([], [add])

        if "nullCount" in wrong and add.get("deletionVector"):
            assert found.equal
        else:
            assert (found.equal, found.mismatches) == (False, ())
            assert [(one.path, one.what.rpartition(": ")[2]) for one in found.files] == [(add["path"], "id")]

    @pytest.mark.parametrize("by_rows", [False, True], ids=["by-bytes", "by-rows"])
    def test_wider_bounds_are_right(self, place, by_rows):
        """A reader finds every row by them."""
        add, changed = self.with_bounds(place, minValues=-1000, maxValues=10**6)
        place.commit([], [changed])
        found = place.verify(by_rows=by_rows)
        place.commit([], [add])

        assert found.equal


class TestWhatOthersWroteAnew:
    """Is compared by rows: tags go with the files that have them."""

    def test_after_a_compaction_of_others(self, place):
        """An OPTIMIZE of one partition leaves its rows; the digests of the rest count as before."""
        place.spark.sql(f"OPTIMIZE delta.`{place.target}` WHERE part = 1")

        found = place.verify()

        assert (found.equal, found.files_by_bytes, found.rows) == (True, FILES * 3 // 4, ROWS)
        assert found.rows_by_rows == ROWS // 4

    def test_a_delete_of_others_is_named(self, place):
        """Spark keeps the tags of a file that gets another vector: its bytes are the same, its rows are not."""
        place.spark.sql(f"DELETE FROM delta.`{place.target}` WHERE id = 2")

        found = place.verify()

        assert found.files[0].what == "its deletion vector hides 6 rows, and that of the source 5"
        assert (len(found.mismatches), found.rows_by_rows) == (1, ROWS // 4 + 40)
