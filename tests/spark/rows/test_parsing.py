"""Which records of a topic are bad: those that a parser of the transform cannot read, whole or in part."""

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from backfill_core.errors import InvalidTransformError
from backfill_spark.jvm.gateway import java_frame
from backfill_spark.rows.counted_rows import CountedRows
from backfill_spark.rows.records.folding import folding
from backfill_spark.rows.records.parsing import REASON, bad_record, is_bad, parsing
from backfill_spark.rows.records.partition_sums import tallied
from backfill_spark.rows.transform import Transform

SCHEMA = StructType().add("partition", IntegerType()).add("offset", LongType()).add("value", BinaryType())
JSON = "from_json(cast(value AS string), 'id BIGINT, name STRING')"
PAYLOADS = {
    "good": b'{"id": 1, "name": "a"}',
    "half": b'{"id": "one", "name": "a"}',
    "cut": b'{"id": 1, "na',
    "other": b'{"id": 1, "more": true}',
    "empty": b"{}",
    "nothing": b"",
    "null": b"null",
    "text": b"7",
    "tombstone": None,
}


@pytest.fixture(scope="module")
def empty(spark):
    return spark.createDataFrame([], SCHEMA)


@pytest.fixture(scope="module")
def topic(spark):
    rows = [(0, at, payload) for at, payload in enumerate(PAYLOADS.values())]
    return spark.createDataFrame([(p, o, None if v is None else bytearray(v)) for p, o, v in rows], SCHEMA)


def found(empty, topic, *select, where=None):
    """Return the names of the bad records, and the number of rows that the good ones make."""
    transform = parsing(Transform(select, where), empty)
    found = transform.bad(transform.judged(topic)).collect()
    return [list(PAYLOADS)[row["offset"]] for row in found], transform.apply(topic).count()


class TestARecordThatAParserCannotRead:
    """It becomes nulls without a word, or ends the job at some row: here it is told apart, before it does either."""

    def test_is_bad_in_json(self, empty, topic):
        """Also a part that does not fit: Spark makes null of it, and keeps the rest."""
        names, rows = found(empty, topic, f"{JSON}.id AS id", "partition", "offset")

        assert names == ["half", "cut", "nothing", "null", "text"]
        assert rows == len(PAYLOADS) - len(names)

    def test_is_bad_in_a_cast(self, empty, topic):
        """`cast` raises, and names no offset."""
        names, rows = found(empty, topic, "cast(cast(value AS string) AS int) AS number")

        assert rows == 2
        assert "text" not in names
        assert "tombstone" not in names

    def test_is_bad_where_a_parser_raises(self, empty, topic):
        """As `parse_json`, which has a form that makes null."""
        names, _ = found(empty, topic, "parse_json(cast(value AS string)) AS document")

        assert names == ["cut", "nothing"]

    def test_is_told_by_the_filter_too(self, empty, topic):
        """A filter makes null of it, and would leave it out without a word."""
        names, rows = found(empty, topic, "offset", where=f"{JSON}.id > 0")

        assert names == ["half", "cut", "nothing", "null", "text"]
        assert rows == 2

    def test_is_not_looked_at_where_the_filter_leaves_it_out(self, empty, topic):
        """By what every record has."""
        names, rows = found(empty, topic, f"{JSON}.id AS id", where="offset > 2")

        assert names == ["nothing", "null", "text"]
        assert rows == 3

    def test_is_told_with_its_field(self, empty, topic):
        """A transform may have many parsers."""
        transform = parsing(Transform(("offset", f"{JSON}.id AS id"), None), empty)

        reasons = {row[REASON] for row in transform.bad(transform.judged(topic)).collect()}

        assert reasons == {"spec.transform.select[1]: from_json cannot read the payload."}


class TestWhoSaysWhatBecomesOfIt:
    """Has said so: the record is good."""

    @pytest.mark.parametrize(
        "select",
        [
            "try_cast(cast(value AS string) AS int) AS number",
            f"coalesce({JSON}.id, -1) AS id",
            "from_json(cast(value AS string), 'id BIGINT, _corrupt_record STRING') AS record",
            "cast(value AS string) AS text",
        ],
    )
    def test_gets_all_records(self, empty, topic, select):
        """With a null, a text or a number of its own."""
        assert found(empty, topic, select) == ([], len(PAYLOADS))


class TestAvro:
    """Spark makes a row of nulls of what it cannot read, or fails; a record in which all is null is a record."""

    SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "note", "type": ["null", "string"]}]}'

    def test_a_payload_of_another_form_is_bad(self, spark, empty):
        """Cut off, or with a branch of a union that the schema has not; a tombstone is none."""
        payloads = [b"\x02\x02a", b"\x00", b"", b"\x06", b"\x02\x09a", None]
        rows = [(0, at, None if one is None else bytearray(one)) for at, one in enumerate(payloads)]
        topic, select = (
            spark.createDataFrame(rows, SCHEMA),
            (f"from_avro(value, '{self.SCHEMA}').note AS note", "offset"),
        )
        transform = parsing(Transform(select), empty)
        Transform(select).check(empty)

        assert [row["offset"] for row in transform.bad(transform.judged(topic)).collect()] == [2, 3, 4]
        assert [tuple(row) for row in transform.apply(topic).collect()] == [("a", 0), (None, 1), (None, 5)]

    def test_a_schema_that_is_none_is_refused(self, empty):
        """By its field: no other try can pass."""
        with pytest.raises(InvalidTransformError, match=r"spec\.transform\.select\[0\]") as refused:
            Transform(("from_avro(value, 'nonsense') AS x",)).check(empty)
        assert "nonsense" in refused.value.message


class TestTheUsualParsersStandInATransform:
    """Row-wise and the same again; the plan and the target have their types."""

    def test_with_their_types(self, spark, empty):
        """A schema in the SQL is the schema of the target."""
        transform = Transform((f"{JSON} AS record", "cast(value AS string) AS text", "offset"), None)
        transform.check(empty)

        assert transform.output_schema(spark, SCHEMA).simpleString() == (
            "struct<record:struct<id:bigint,name:string>,text:string,offset:bigint>"
        )

    def test_or_are_refused_by_their_field(self, empty):
        """A schema that is none, a column that is not there."""
        for wrong, words in {"from_json(cast(value AS string), 'id BIG')": "BIG", f"{JSON}.idd": "idd"}.items():
            with pytest.raises(InvalidTransformError, match=r"spec\.transform\.select\[1\]") as refused:
                Transform(("offset", f"{wrong} AS x"), None).check(empty)
            assert words in refused.value.message


def parses(frame):
    """Return how often Spark parses JSON for a frame, by what it would execute."""
    return java_frame(frame).queryExecution().optimizedPlan().toString().count("from_json(")


class TestAPayloadIsParsedOnce:
    """The check of a record and its row share what a parser made of it."""

    @pytest.mark.parametrize(
        ("select", "where"),
        [
            ((f"{JSON}.id AS id", f"{JSON}.name AS name", f"coalesce({JSON}.name, '') AS other"), None),
            ((f"{JSON} AS record", f"cast({JSON}.name AS int) AS number"), "offset > 2"),
            (("offset", f"upper({JSON}.name) AS name"), f"{JSON}.id > 0"),
            ((f"struct({JSON}) AS document", f"{JSON}.id AS id", "id + 1 AS next"), f"{JSON}.id > 0"),
        ],
    )
    def test_where_it_is_written(self, spark, empty, topic, select, where):
        """As work does: the bad records are counted on the way. A row is what it would be without us."""
        plain, transform = Transform(select, where), parsing(Transform(select, where), empty)
        rows = transform.rows(CountedRows(spark, transform.judged(topic), only=is_bad()).frame)

        assert parses(rows) == 1
        bad = [one["offset"] for one in transform.bad(transform.judged(topic)).collect()]
        good = topic.where(~F.col("offset").isin(bad))
        assert rows.columns == plain.apply(empty).columns
        assert [one.dataType.simpleString() for one in rows.schema] == [
            one.dataType.simpleString() for one in plain.apply(empty).schema
        ]
        assert sorted(map(str, rows.collect())) == sorted(map(str, plain.apply(good).collect()))

    def test_in_a_receipt(self, empty, topic):
        """It has records that are no rows, so no filter stands between parsers and sums."""
        rows, _ = tallied(topic, parsing(Transform((f"{JSON}.id AS id", "offset"), f"{JSON}.id > 0"), empty))

        assert parses(rows) == 1

    def test_in_a_target_with_one_row_a_key(self, spark, empty, topic):
        """Key, row and filter need it."""
        known = parsing(Transform((f"{JSON}.id AS id", f"{JSON}.name AS name"), f"{JSON}.name <> ''"), empty)
        folds = folding(known, empty, ("id",))
        judged = CountedRows(spark, folds.judged(topic), only=is_bad())

        assert parses(folds.folded(judged.frame)) == 1
        assert parses(folds.tallied(folds.judged(topic))) == 1


class TestAParserIsNotAskedInVain:
    """What would fail on a record that another parser cannot read is not computed of it."""

    def test_behind_one_that_could_not_read_the_record(self, spark, empty):
        """The record is set aside by its first reason; none of the later ones ends the job."""
        rows = [(0, 0, bytearray(b'{"id": 1}')), (0, 1, bytearray(b"")), (0, 2, None)]
        topic = spark.createDataFrame(rows, SCHEMA)
        transform = parsing(Transform((f"{JSON}.id AS id", "cast(100 div length(value) AS int) AS part")), empty)

        judged = transform.judged(topic)

        assert [(one["offset"], one[REASON]) for one in transform.bad(judged).collect()] == [
            (1, "spec.transform.select[0]: from_json cannot read the payload.")
        ]
        assert sorted(map(tuple, transform.rows(judged).collect()), key=str) == [(1, 11), (None, None)]

    def test_by_a_filter_that_needs_it_of_some_records_only(self, empty, topic):
        """It comes first, and leaves out what it does not know."""
        assert found(empty, topic, f"{JSON}.id AS id", where=f"offset > 2 AND {JSON}.id > 0") == ([], 1)

    def test_and_a_star_is_the_source(self, empty, topic):
        """Our own columns are none of it, in whatever function it stands."""
        most = "to_json(struct(* EXCEPT (value))) AS most"
        transform = parsing(
            Transform(("*", f"{JSON}.id AS id", "to_json(struct(*)) AS all", most), "offset = 0"), empty
        )

        row = transform.apply(topic).collect()[0].asDict()

        assert list(row) == ["partition", "offset", "value", "id", "all", "most"]
        assert set(json.loads(row["all"])) == {"partition", "offset", "value"}
        assert json.loads(row["most"]) == {"partition": 0, "offset": 0}

    def test_nor_within_a_function_of_each_element(self, empty, topic):
        """Its variable is no column."""
        select = (
            "transform(split(cast(value AS string), ','), x -> coalesce(cast(try_cast(x AS int) AS bigint), 0)) AS parts",
            f"{JSON}.id AS id",
        )

        assert found(empty, topic, *select)[0] == ["half", "cut", "nothing", "null", "text"]


class TestTheErrorOfBadRecords:
    """A user reads it once, and must know which records are meant."""

    def test_counts_the_records_of_several_offsets(self, topic):
        """The words were "the offsets 0 to 46 of partition 0 has 5 such records" (fault B14)."""
        error = bad_record(
            topic.withColumn(REASON, F.lit("the record has no value.")), 5, "the offsets 0 to 46 of partition 0"
        )

        assert error.message == (
            "the record at offset 0 of partition 0 cannot be parsed. the record has no value. "
            "There are 5 such records in the offsets 0 to 46 of partition 0."
        )
