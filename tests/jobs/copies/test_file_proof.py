"""A receipt of copied files reads their bytes back. Damage that a test planted in a target is found and named."""

import hashlib
import json
from urllib.parse import unquote

import pytest
from support.tables.jobs import job, make_kind
from support.tables.oracle import adds_of
from support.tables.other_engine import commit_actions

from backfill_core.file_copies.copy_digest import TAG
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
        # Kernel writes a checkpoint after each commit, so the target's log is read from one.
        goal = {"properties": {"delta.checkpointInterval": "1"}}
        self.job = job(str(self.source), str(self.target), target=goal, **REPLICA)
        self.outcome = run_driver(self.job, settings=self.settings, spark=spark)

    def verify(self, **options):
        """Compare both sides without a driver."""
        return verify_offline(self.job, settings=self.settings, spark=self.spark, **options)[0]

    def commit(self, removed, added):
        """Commit file actions to the target, as an engine that checks nothing."""
        commit_actions(self.target, removed, added)

    def file(self, add):
        """Return the path of a file of the target."""
        return self.target / unquote(add["path"])


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    """One target for all tests. Each test removes the damage that it planted."""
    return Place(spark, tmp_path_factory.mktemp("proof"))


def flipped(path):
    """Flip a bit in the middle of a file; a second call restores the file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class TestAnUndamagedTarget:
    """An undamaged target is proven without reading a row, and the receipt records that."""

    def test_an_undamaged_target_is_proven_by_bytes(self, place):
        """The job's own receipt is, too. Each file has a digest in the log, and the state has none."""
        stored, compared = place.outcome.receipt, place.verify()

        assert (stored.equal, stored.files_by_bytes, stored.rows_by_rows, stored.rows) == (True, FILES, 0, ROWS)
        assert (compared.equal, compared.files_by_bytes, compared.rows_by_rows, compared.rows) == (True, FILES, 0, ROWS)
        assert compared.digest == stored.digest
        assert all(TAG in add["tags"] for add in adds_of(place.target).values())

    def test_an_undamaged_target_is_proven_by_rows_on_request(self, place):
        """Both methods have the same result."""
        receipt = place.verify(by_rows=True)

        assert (receipt.equal, receipt.files_by_bytes, receipt.rows_by_rows, receipt.rows) == (True, 0, None, ROWS)


class TestDamageIsFoundAndNamed:
    """Any damage is found, with the file and the difference."""

    def test_a_flipped_bit_is_found(self, place):
        """No engine may notice it, because no row is read."""
        add = max(adds_of(place.target).values(), key=lambda entry: entry["path"])
        flipped(place.file(add))

        receipt = place.verify()
        flipped(place.file(add))

        assert (receipt.equal, receipt.mismatches, receipt.files_by_bytes, receipt.rows) == (False, (), FILES - 1, ROWS)
        assert [(file.path, "digest" in file.what) for file in receipt.files] == [(add["path"], True)]

    def test_each_kind_of_damage_is_found_at_once(self, place):
        """A file is lost, doubled or missing, or has another vector, partition or count.

        Wrong statistics alone are compared by rows.
        """
        adds = sorted(adds_of(place.target).values(), key=lambda add: (add["partitionValues"]["part"], add["path"]))
        gone, lost, twice, count, statistics = adds[:5]
        bare, moved, swapped = adds[5], adds[6], adds[10]
        stats = json.loads(count["stats"])
        second = twice | {"path": twice["path"].replace("-0.parquet", "-1.parquet")}
        place.file(second).write_bytes(place.file(twice).read_bytes())
        away = place.file(gone).rename(place.target / "away")
        tight = json.dumps(json.loads(statistics["stats"]) | {"minValues": {"id": -1}})
        # With the same vector an entry replaces the earlier one; with another vector it is another file.
        removed, same = [lost, bare, swapped], [count, statistics, moved]
        added = [
            count | {"stats": json.dumps(stats | {"numRecords": stats["numRecords"] + 1})},
            statistics | {"stats": tight},
            moved | {"partitionValues": {"part": "7"}},
            second,
            {name: value for name, value in bare.items() if name != "deletionVector"},
            swapped | {"deletionVector": bare["deletionVector"]},
        ]
        place.commit(removed, added)

        receipt = place.verify()
        place.commit(added[3:], [*removed, *same])
        away.rename(place.file(gone))

        differences = {file.path: file.what for file in receipt.files}
        names = {hashlib.sha256(path.encode()).hexdigest()[:32]: path for path in adds_of(place.source)}
        (of_lost,) = (path for tag, path in names.items() if tag in lost["path"])
        assert (receipt.equal, receipt.complete, len(receipt.mismatches) > 0) == (False, True, True)
        assert differences[gone["path"]] == "it does not exist"
        assert "no copy" in differences[of_lost]
        assert "more than once" in differences[second["path"]]
        assert f"{stats['numRecords'] + 1} rows" in differences[count["path"]]
        assert "hides 0 rows" in differences[bare["path"]]
        assert "partition value part is '7'" in differences[moved["path"]]
        assert "hides other rows" in differences[swapped["path"]]
        assert "statistics" in differences[statistics["path"]]
        assert len(differences) == 8
        assert place.verify().files_by_bytes == FILES

    def test_a_damaged_file_of_a_vector_is_found(self, place):
        """Deleted rows would come back, or no engine could read the file."""
        vector = next(place.target.rglob("deletion_vector_*.bin"))
        content = vector.read_bytes()
        vector.write_bytes(content[:3] + bytes(len(content) - 3))

        receipt = place.verify()
        vector.write_bytes(content)

        assert not receipt.equal
        assert receipt.files
        assert all("deletion vector cannot be read" in file.what for file in receipt.files)


class TestStatisticsOfTheLog:
    """Readers skip files by them, so every filter loses rows that they exclude (fault D14)."""

    def with_bounds(self, place, **bounds):
        """Return the entry of a file whose ids exceed 5, and the same entry with other bounds of its ids."""
        add = next(
            entry for entry in adds_of(place.target).values() if json.loads(entry["stats"])["maxValues"]["id"] > 5
        )
        statistics = json.loads(add["stats"])
        for kind, value in bounds.items():
            statistics[kind] = statistics[kind] | {"id": value}
        return add, add | {"stats": json.dumps(statistics)}

    @pytest.mark.parametrize("by", [{}, {"by_rows": True}, {"statistics": True}], ids=str)
    @pytest.mark.parametrize("wrong", [{"maxValues": 5}, {"nullCount": 1}], ids=str)
    def test_a_file_with_wrong_statistics_is_named_with_the_column(self, place, by, wrong):
        """All its rows exist, but no reader with a filter finds them."""
        add, changed = self.with_bounds(place, **wrong)
        place.commit([], [changed])
        receipt = place.verify(**by)
        place.commit([], [add])

        if "nullCount" in wrong and add.get("deletionVector"):
            assert receipt.equal
        else:
            assert (receipt.equal, receipt.mismatches) == (False, ())
            assert [(file.path, file.what.rpartition(": ")[2]) for file in receipt.files] == [(add["path"], "id")]

    @pytest.mark.parametrize("by_rows", [False, True], ids=["by-bytes", "by-rows"])
    def test_wider_bounds_are_right(self, place, by_rows):
        """A reader finds every row by them."""
        add, changed = self.with_bounds(place, minValues=-1000, maxValues=10**6)
        place.commit([], [changed])
        receipt = place.verify(by_rows=by_rows)
        place.commit([], [add])

        assert receipt.equal


class TestWhatOthersWroteAnew:
    """Rewritten files are compared by rows: tags are removed with the files that have them."""

    def test_a_foreign_compaction_is_compared_by_rows(self, place):
        """An OPTIMIZE of one partition keeps its rows. The digests of the other files count as before."""
        place.spark.sql(f"OPTIMIZE delta.`{place.target}` WHERE part = 1")

        receipt = place.verify()

        assert (receipt.equal, receipt.files_by_bytes, receipt.rows) == (True, FILES * 3 // 4, ROWS)
        assert receipt.rows_by_rows == ROWS // 4

    def test_a_foreign_delete_is_named(self, place):
        """Spark keeps the tags of a file that gets another vector: its bytes are the same, its rows are not."""
        place.spark.sql(f"DELETE FROM delta.`{place.target}` WHERE id = 2")

        receipt = place.verify()

        assert receipt.files[0].what == "its deletion vector hides 6 rows, and that of the source 5"
        assert (len(receipt.mismatches), receipt.rows_by_rows) == (1, ROWS // 4 + 40)
