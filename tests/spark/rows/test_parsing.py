"""Bad records of a topic: those that a parser of the transform cannot read, whole or in part."""

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from backfill_core.errors import InvalidTransformError
from backfill_spark.jvm.gateway import java_frame
from backfill_spark.receipts.partition_sums import tallied
from backfill_spark.records.folding import folding
from backfill_spark.records.parsing import REASON, bad_record, is_bad, parsing
from backfill_spark.rows.counted_rows import CountedRows
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


def bad_and_rows(empty, topic, *select, where=None):
    """Return the names of the bad records, and the number of rows of the good ones."""
    transform = parsing(Transform(select, where), empty)
    bad_rows = transform.bad(transform.judged(topic)).collect()
    return [list(PAYLOADS)[row["offset"]] for row in bad_rows], transform.apply(topic).count()


class TestARecordThatAParserCannotRead:
    """Spark turns such a record into nulls silently, or ends the job at some row. The check finds it first."""

    def test_a_record_that_from_json_cannot_read_is_bad(self, empty, topic):
        """A single field of another type counts, too: Spark makes it null and keeps the other fields."""
        names, rows = bad_and_rows(empty, topic, f"{JSON}.id AS id", "partition", "offset")

        assert names == ["half", "cut", "nothing", "null", "text"]
        assert rows == len(PAYLOADS) - len(names)

    def test_a_record_that_cast_cannot_read_is_bad(self, empty, topic):
        """`cast` raises an error without an offset."""
        names, rows = bad_and_rows(empty, topic, "cast(cast(value AS string) AS int) AS number")

        assert rows == 2
        assert "text" not in names
        assert "tombstone" not in names

    @pytest.mark.parametrize(
        ("function", "good"), [("int", b"7"), ("date", b"2024-02-29"), ("decimal", b"-1"), ("boolean", b"true")]
    )
    def test_a_record_that_a_function_named_after_a_type_cannot_read_is_bad(self, spark, empty, function, good):
        """`int(x)` is `CAST(x AS INT)`, and once ended the job in place of a bad record."""
        payloads = [good, b"?", None]
        rows = [(0, at, None if payload is None else bytearray(payload)) for at, payload in enumerate(payloads)]
        topic = spark.createDataFrame(rows, SCHEMA)
        transform = parsing(Transform((f"{function}(cast(value AS string)) AS x", "offset")), empty)

        assert [row["offset"] for row in transform.bad(transform.judged(topic)).collect()] == [1]
        read = (
            transform.apply(topic)
            .withColumn("same", F.col("x").eqNullSafe(F.lit(good.decode()).cast(function)))
            .collect()
        )
        assert [(row["same"], row["x"] is None, row["offset"]) for row in read] == [(True, False, 0), (False, True, 2)]

    def test_a_record_that_decode_cannot_read_is_bad(self, spark, empty):
        """Its bytes are not UTF-8; `decode` raises an error without an offset."""
        payloads = ["grün 💧".encode(), b"\xff\xfe", "grün".encode("latin-1"), b"", None]
        rows = [(0, at, None if payload is None else bytearray(payload)) for at, payload in enumerate(payloads)]
        topic = spark.createDataFrame(rows, SCHEMA)
        transform = parsing(Transform(("decode(value, 'utf-8') AS text", "offset")), empty)

        assert [row["offset"] for row in transform.bad(transform.judged(topic)).collect()] == [1, 2]
        assert [tuple(row) for row in transform.apply(topic).collect()] == [("grün 💧", 0), ("", 3), (None, 4)]

    def test_a_record_at_which_a_parser_raises_is_bad(self, empty, topic):
        """An example is `parse_json`, which has a variant that returns null."""
        names, _ = bad_and_rows(empty, topic, "parse_json(cast(value AS string)) AS document")

        assert names == ["cut", "nothing"]

    def test_a_record_that_a_parser_of_the_filter_cannot_read_is_bad(self, empty, topic):
        """The filter would evaluate to null and silently drop the record."""
        names, rows = bad_and_rows(empty, topic, "offset", where=f"{JSON}.id > 0")

        assert names == ["half", "cut", "nothing", "null", "text"]
        assert rows == 2

    def test_a_record_that_the_filter_excludes_is_not_checked(self, empty, topic):
        """The filter uses only a column that every record has."""
        names, rows = bad_and_rows(empty, topic, f"{JSON}.id AS id", where="offset > 2")

        assert names == ["nothing", "null", "text"]
        assert rows == 3

    def test_a_bad_record_is_reported_with_its_field(self, empty, topic):
        """A transform may have many parsers."""
        transform = parsing(Transform(("offset", f"{JSON}.id AS id"), None), empty)

        reasons = {row[REASON] for row in transform.bad(transform.judged(topic)).collect()}

        assert reasons == {"spec.transform.select[1]: from_json cannot read the payload."}


class TestWhoSaysWhatBecomesOfIt:
    """If the transform itself handles unreadable payloads, the record is good."""

    @pytest.mark.parametrize(
        "select",
        [
            "try_cast(cast(value AS string) AS int) AS number",
            f"coalesce({JSON}.id, -1) AS id",
            "from_json(cast(value AS string), 'id BIGINT, _corrupt_record STRING') AS record",
            "cast(value AS string) AS text",
        ],
    )
    def test_a_transform_that_handles_failures_gets_all_records(self, empty, topic, select):
        """It yields a null, a string or a number for such a record."""
        assert bad_and_rows(empty, topic, select) == ([], len(PAYLOADS))


class TestAvro:
    """Spark makes a row of nulls from an unreadable payload, or fails.

    A record in which all fields are null is valid.
    """

    SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "note", "type": ["null", "string"]}]}'

    def test_a_payload_of_another_form_is_bad(self, spark, empty):
        """It is truncated, or has a branch of a union that the schema lacks. A tombstone is not bad."""
        payloads = [b"\x02\x02a", b"\x00", b"", b"\x06", b"\x02\x09a", None]
        rows = [(0, at, None if payload is None else bytearray(payload)) for at, payload in enumerate(payloads)]
        topic, select = (
            spark.createDataFrame(rows, SCHEMA),
            (f"from_avro(value, '{self.SCHEMA}').note AS note", "offset"),
        )
        transform = parsing(Transform(select), empty)
        Transform(select).check(empty)

        assert [row["offset"] for row in transform.bad(transform.judged(topic)).collect()] == [2, 3, 4]
        assert [tuple(row) for row in transform.apply(topic).collect()] == [("a", 0), (None, 1), (None, 5)]

    @pytest.mark.parametrize("kind", ["string", "bytes", {"type": "array", "items": "int"}], ids=str)
    def test_a_length_beyond_all_memory_is_bad(self, spark, empty, kind):
        """The payload has ten bytes, of which the first are read as a length of two billion: it once ended Java in each attempt."""
        schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "x", "type": kind}]})
        topic = spark.createDataFrame([(0, 0, bytearray(b"\x80\xd0\xac\xf3\x0eabcde"))], SCHEMA)
        transform = parsing(Transform((f"from_avro(value, '{schema}').x AS x",)), empty)

        assert [row["offset"] for row in transform.bad(transform.judged(topic)).collect()] == [0]

    def test_an_invalid_schema_is_refused(self, empty):
        """The error names the field, because no retry can pass."""
        with pytest.raises(InvalidTransformError, match=r"spec\.transform\.select\[0\]") as refused:
            Transform(("from_avro(value, 'nonsense') AS x",)).check(empty)
        assert "nonsense" in refused.value.message


class TestTheUsualParsersStandInATransform:
    """The usual parsers work row by row and are deterministic. The plan and the target have their types."""

    def test_parsers_have_the_types_of_their_schemas(self, spark, empty):
        """A schema in the SQL is the schema of the target."""
        transform = Transform((f"{JSON} AS record", "cast(value AS string) AS text", "offset"), None)
        transform.check(empty)

        assert transform.output_schema(spark, SCHEMA).simpleString() == (
            "struct<record:struct<id:bigint,name:string>,text:string,offset:bigint>"
        )

    def test_wrong_parsers_are_refused_by_their_field(self, empty):
        """One schema is invalid, and one column does not exist."""
        for wrong, message in {"from_json(cast(value AS string), 'id BIG')": "BIG", f"{JSON}.idd": "idd"}.items():
            with pytest.raises(InvalidTransformError, match=r"spec\.transform\.select\[1\]") as refused:
                Transform(("offset", f"{wrong} AS x"), None).check(empty)
            assert message in refused.value.message


def parses(frame):
    """Return the number of JSON parsers in the plan that Spark would execute."""
    return java_frame(frame).queryExecution().optimizedPlan().toString().count("from_json(")


class TestAPayloadIsParsedOnce:
    """The check of a record and its row share the parser's result."""

    @pytest.mark.parametrize(
        ("select", "where"),
        [
            ((f"{JSON}.id AS id", f"{JSON}.name AS name", f"coalesce({JSON}.name, '') AS other"), None),
            ((f"{JSON} AS record", f"cast({JSON}.name AS int) AS number"), "offset > 2"),
            (("offset", f"upper({JSON}.name) AS name"), f"{JSON}.id > 0"),
            ((f"struct({JSON}) AS document", f"{JSON}.id AS id", "id + 1 AS next"), f"{JSON}.id > 0"),
        ],
    )
    def test_a_payload_is_parsed_once_where_it_is_written(self, spark, empty, topic, select, where):
        """Bad records are counted in the same pass, as in a job. Each row equals that of the plain transform."""
        plain, transform = Transform(select, where), parsing(Transform(select, where), empty)
        rows = transform.rows(CountedRows(spark, transform.judged(topic), only=is_bad()).frame)

        assert parses(rows) == 1
        bad = [row["offset"] for row in transform.bad(transform.judged(topic)).collect()]
        good = topic.where(~F.col("offset").isin(bad))
        assert rows.columns == plain.apply(empty).columns
        assert [field.dataType.simpleString() for field in rows.schema] == [
            field.dataType.simpleString() for field in plain.apply(empty).schema
        ]
        assert sorted(map(str, rows.collect())) == sorted(map(str, plain.apply(good).collect()))

    def test_a_payload_is_parsed_once_in_a_receipt(self, empty, topic):
        """A receipt includes records without rows, so no filter separates parsers and sums."""
        rows, _ = tallied(topic, parsing(Transform((f"{JSON}.id AS id", "offset"), f"{JSON}.id > 0"), empty))

        assert parses(rows) == 1

    def test_a_payload_is_parsed_once_in_a_target_with_one_row_a_key(self, spark, empty, topic):
        """Key, row and filter need the parsed payload."""
        transform = parsing(Transform((f"{JSON}.id AS id", f"{JSON}.name AS name"), f"{JSON}.name <> ''"), empty)
        folds = folding(transform, empty, ("id",))
        judged = CountedRows(spark, folds.judged(topic), only=is_bad())

        assert parses(folds.folded(judged.frame)) == 1
        assert parses(folds.tallied(folds.judged(topic))) == 1


class TestAParserIsNotAskedInVain:
    """An expression that would fail on an unreadable record is not computed for it."""

    def test_expressions_after_the_first_failure_are_not_computed(self, spark, empty):
        """The record is set aside for its first reason. No later expression ends the job."""
        rows = [(0, 0, bytearray(b'{"id": 1}')), (0, 1, bytearray(b"")), (0, 2, None)]
        topic = spark.createDataFrame(rows, SCHEMA)
        transform = parsing(Transform((f"{JSON}.id AS id", "cast(100 div length(value) AS int) AS part")), empty)

        judged = transform.judged(topic)

        assert [(row["offset"], row[REASON]) for row in transform.bad(judged).collect()] == [
            (1, "spec.transform.select[0]: from_json cannot read the payload.")
        ]
        assert sorted(map(tuple, transform.rows(judged).collect()), key=str) == [(1, 11), (None, None)]

    def test_a_filter_that_parses_only_some_records_comes_first(self, empty, topic):
        """The filter drops records for which it is null."""
        assert bad_and_rows(empty, topic, f"{JSON}.id AS id", where=f"offset > 2 AND {JSON}.id > 0") == ([], 1)

    def test_a_record_that_a_parser_of_the_filter_excludes_is_not_parsed_further(self, spark, empty):
        """Records of other kinds may have other forms. Plain Spark SQL filters first, too."""
        payloads = [
            b'{"kind": "order", "id": "1"}',
            b'{"kind": "note", "id": "one"}',
            b'{"kind": "order", "id": "two"}',
            b"{",
        ]
        topic = spark.createDataFrame([(0, at, bytearray(payload)) for at, payload in enumerate(payloads)], SCHEMA)
        document = "from_json(cast(value AS string), 'kind STRING, id STRING')"
        transform = parsing(Transform((f"cast({document}.id AS int) AS id",), f"{document}.kind = 'order'"), empty)

        judged = transform.judged(topic)

        assert [(row["offset"], row[REASON]) for row in transform.bad(judged).collect()] == [
            (2, "spec.transform.select[0]: cast cannot read the payload."),
            (3, "spec.transform.where: from_json cannot read the payload."),
        ]
        assert [row["id"] for row in transform.rows(judged).collect()] == [1]

    def test_a_star_means_the_columns_of_the_source(self, empty, topic):
        """The product's own columns are not in it, in any function that contains it."""
        most = "to_json(struct(* EXCEPT (value))) AS most"
        transform = parsing(
            Transform(("*", f"{JSON}.id AS id", "to_json(struct(*)) AS all", most), "offset = 0"), empty
        )

        row = transform.apply(topic).collect()[0].asDict()

        assert list(row) == ["partition", "offset", "value", "id", "all", "most"]
        assert set(json.loads(row["all"])) == {"partition", "offset", "value"}
        assert json.loads(row["most"]) == {"partition": 0, "offset": 0}

    def test_a_variable_of_a_lambda_is_no_column(self, empty, topic):
        """The function applies to each element of an array."""
        select = (
            "transform(split(cast(value AS string), ','), x -> coalesce(cast(try_cast(x AS int) AS bigint), 0)) AS parts",
            f"{JSON}.id AS id",
        )

        assert bad_and_rows(empty, topic, *select)[0] == ["half", "cut", "nothing", "null", "text"]


class TestTheErrorOfBadRecords:
    """A user reads it once, and must learn which records are bad."""

    def test_the_error_counts_the_records_of_several_offsets(self, topic):
        """Before, the message was "the offsets 0 to 46 of partition 0 has 5 such records" (fault B14)."""
        error = bad_record(
            topic.withColumn(REASON, F.lit("the record has no value.")), 5, "the offsets 0 to 46 of partition 0"
        )

        assert error.message == (
            "the record at offset 0 of partition 0 cannot be parsed. the record has no value. "
            "There are 5 such records in the offsets 0 to 46 of partition 0."
        )
