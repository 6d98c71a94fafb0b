"""Statistics of staged files from their footers; readers skip files by them."""

import json
from pathlib import Path

import pytest

COLUMNS = {
    "id": "id",
    "tiny": "cast(id % 100 AS tinyint)",
    "small": "cast(id AS smallint)",
    "whole": "cast(id AS int)",
    "real": "cast(id / 3 AS float)",
    "wide": "id / 7",
    "money": "cast(id * 1.37 AS decimal(12, 2))",
    "big": "cast(id * 1.3 AS decimal(30, 5))",
    "name": "concat('n', id)",
    "flag": "id % 2 = 0",
    "day": "date_add(DATE'2020-01-01', cast(id AS int))",
    "at": "timestamp_micros(1700000000123456 + id)",
    "local": "cast(timestamp_seconds(id) AS timestamp_ntz)",
    "maybe": "if(id % 4 = 0, null, id)",
    "never": "cast(null AS string)",
    "nested": "named_struct('a', id, 'b', concat('x', id))",
}
LISTS = {"list": "array(id, null)", "pairs": "map('k', id)", "raw": "cast(concat('b', id) AS binary)"}


def every_type(spark, rows=50):
    return spark.range(0, rows, 1, 1).selectExpr(*(f"{sql} AS {name}" for name, sql in (COLUMNS | LISTS).items()))


class TestStatistics:
    """Statistics from footers equal those that an ordinary Delta write computes row by row."""

    def test_statistics_of_every_column_type_are_right(self, spark, table, tmp_path):
        """Wrong bounds make readers skip files that contain their rows."""
        rows = every_type(spark)
        target = table(rows)
        version = target.committer.seal(1, target.stage(rows), "s").version
        rows.write.format("delta").save(str(tmp_path / "plain"))

        ours = json.loads(next(a["add"]["stats"] for a in target.actions(version) if "add" in a))
        log = Path(tmp_path, "plain", "_delta_log", f"{0:020d}.json").read_text().splitlines()
        reference = json.loads(next(json.loads(line)["add"]["stats"] for line in log if '"add"' in line))
        assert ours["numRecords"] == reference["numRecords"] == 50
        for name in set(COLUMNS) - {"never", "nested", "flag", "at", "local"}:
            for bound in ("minValues", "maxValues"):
                assert ours[bound][name] == pytest.approx(reference[bound][name]), (bound, name)
        assert ours["nullCount"]["maybe"] == reference["nullCount"]["maybe"] == 13
        assert ours["nullCount"]["never"] == 50
        assert ours["minValues"]["nested"]["a"] == 0
        assert ours["minValues"]["at"] == ours["maxValues"]["at"] == "2023-11-14T22:13:20.123Z"
        # Bytes have no bounds: converted to a string, invalid bytes would change.
        assert "raw" not in {**ours["minValues"], **ours["maxValues"], **reference["minValues"]}
        assert ours["nullCount"]["raw"] == reference["nullCount"]["raw"] == 0

    def test_a_filter_on_each_column_finds_its_rows(self, spark, table):
        """Wrong bounds would skip the file."""
        rows = every_type(spark)
        target = table(rows)
        target.committer.seal(1, target.stage(rows), "s")
        row = rows.where("id = 49").collect()[0].asDict()

        for name, sql in COLUMNS.items():
            if row[name] is not None and name != "nested":
                value = sql.replace("id", "49L") if name != "id" else "49L"
                assert target.read().where(f"{name} = ({value})").where("id = 49").count() == 1, (name, sql)

    @pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
    def test_bounds_of_timestamps_include_their_microseconds(self, spark, table, kind):
        """Bounds are truncated to milliseconds, as Delta's own.

        Its reader adds one to the upper bound, or a row is lost.
        """
        early, late = "1969-12-31 23:59:59.123456", "2023-11-14 22:13:20.987654"
        zone = "+00:00" if kind == "timestamp" else ""
        rows = [spark.sql(f"SELECT cast('{moment}{zone}' AS {kind}) AS at") for moment in (early, late)]
        target = table(rows[0])
        versions = [
            target.committer.seal(number, target.stage(frame), "s").version for number, frame in enumerate(rows)
        ]

        added = [next(action["add"] for action in target.actions(version) if "add" in action) for version in versions]
        statistics = [json.loads(add["stats"]) for add in added]
        bounds = [moment[:23].replace(" ", "T") + ("Z" if zone else "") for moment in (early, late)]
        assert [(file["minValues"]["at"], file["maxValues"]["at"]) for file in statistics] == [
            (bound, bound) for bound in bounds
        ]
        for moment in (early, late):
            value, step = f"cast('{moment}{zone}' AS {kind})", "interval 1 microsecond"
            for here in (f"at = {value}", f"at > {value} - {step} AND at < {value} + {step}"):
                assert target.read().where(here).count() == 1, here
        assert target.read().where(f"at > cast('{late}{zone}' AS {kind}) - interval 1 microsecond").count() == 1
        assert target.read().where(f"at < cast('{early}{zone}' AS {kind}) + interval 1 microsecond").count() == 1

    @pytest.mark.parametrize("zero", ["0.0", "-0.0"])
    def test_bounds_include_both_zeros_and_no_nan(self, spark, table, zero):
        """0.0 equals -0.0 for every reader, and NaN has no place in an order: a bound that lacks one of them hides its rows."""
        kinds = ("double", "float")
        rows = spark.range(0, 20, 1, 1).selectExpr(
            "id",
            *(f"{kind}('{zero}') AS {kind}_zero" for kind in kinds),
            *(f"{kind}(if(id = 3, 'NaN', '1.0')) AS {kind}_nan" for kind in kinds),
        )
        target = table(rows)
        version = target.committer.seal(1, target.stage(rows), "s").version

        stats = json.loads(next(a["add"]["stats"] for a in target.actions(version) if "add" in a))

        low, high = stats["minValues"], stats["maxValues"]
        for kind in kinds:
            name = f"{kind}_zero"
            assert (str(low[name]), str(high[name])) == ("-0.0", "0.0")
        assert not {f"{kind}_nan" for kind in kinds} & {*low, *high}

    def test_files_without_rows_are_not_staged(self, spark, table):
        """An empty file costs every reader a request."""
        target = table(spark.range(1))

        assert target.stage(spark.range(0)) == ()
