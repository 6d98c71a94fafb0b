"""A record at which a function raises an error, or of which a parser drops an element, is a bad record.

Plain Spark SQL decides: it raises an error for each bad record, and computes the expected rows of the others.
"""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from backfill_spark.records.parsing import REASON, parsing
from backfill_spark.rows.transform import Transform

SCHEMA = StructType().add("partition", IntegerType()).add("offset", LongType()).add("value", BinaryType())
TEXT = "cast(value AS string)"
LINE = f"split({TEXT}, ',')"


@pytest.fixture(scope="module")
def empty(spark):
    return spark.createDataFrame([], SCHEMA)


@pytest.fixture
def bad_offsets(spark, empty):
    """Return the offsets of bad records; the rows of the other records equal those of plain Spark SQL."""

    def offsets(expression, payloads, *, where=None):
        rows = [(0, at, None if payload is None else bytearray(payload)) for at, payload in enumerate(payloads)]
        topic, plain = spark.createDataFrame(rows, SCHEMA), Transform((f"{expression} AS x", "offset"), where)
        plain.check(empty)
        transform = parsing(plain, empty)
        bad = [row["offset"] for row in transform.bad(transform.judged(topic)).collect()]
        good = transform.apply(topic)
        expected = plain.apply(topic.where(~topic["offset"].isin(*bad, -1)))
        assert [(field.name, field.dataType) for field in good.schema] == [
            (field.name, field.dataType) for field in expected.schema
        ]
        assert sorted(map(str, good.collect())) == sorted(map(str, expected.collect()))
        return bad

    return offsets


def raises(spark, expression, payload):
    """Return True if plain Spark SQL raises an error for a record."""
    topic = spark.createDataFrame([(0, 0, bytearray(payload))], SCHEMA)
    try:
        topic.selectExpr(expression).collect()
    except (PySparkException, Py4JJavaError):
        return True
    return False


class TestAFunctionThatRaises:
    """It once ended the job without the offset of the record."""

    @pytest.mark.parametrize(
        ("expression", "good", "bad"),
        [
            (f"to_timestamp_ntz({TEXT})", b"2024-03-31 02:30:00", b"?"),
            (f"to_timestamp_ntz({TEXT}, 'yyyy|MM|dd')", b"2024|03|31", b"2024-03-31"),
            (f"to_timestamp_ltz({TEXT})", b"2024-03-31 02:30:00Z", b"?"),
            (f"to_unix_timestamp({TEXT})", b"2024-03-31 02:30:00", b"?"),
            (f"unbase64({TEXT})", b"YWJj", b"YWJjZ"),
            (f"{LINE}[1]", b"a,b", b"a"),
            (f"{LINE}[size({LINE}) - 2]", b"a,b", b"a"),
            (f"element_at({LINE}, 2)", b"a,b", b"a"),
            (f"elt(length({TEXT}), 'one', 'two')", b"ab", b"abc"),
            (f"str_to_map({TEXT})['a']", b"a:1,b:2", b"a:1,a:2"),
            (f"url_decode({TEXT})", b"a%20b", b"%"),
            (f"parse_url({TEXT}, 'HOST')", b"http://a/b", b"http://a b"),
            ("decode(value, 'UTF-16BE')", b"\x00a", b"\xd8\x00"),
            ("validate_utf8(cast(value AS string))", b"a", b"\xff"),
            (f"variant_get(try_parse_json({TEXT}), '$.id', 'int')", b'{"id": 1}', b'{"id": "one"}'),
            (f"make_date(2024, length({TEXT}), 1)", b"a", b"a much too long month"),
            (f"map_from_entries(transform({LINE}, x -> struct(x, 1)))", b"a,b", b"a,a"),
            (f"xpath_string({TEXT}, 'a/b')", b"<a><b>c</b></a>", b"<a>"),
            (f"cast({LINE} AS array<int>)", b"1,2", b"1,x"),
            (f"cast(map('a', {TEXT}) AS map<string, int>)", b"1", b"x"),
            (f"cast(struct({TEXT} AS id) AS struct<id: int>)", b"1", b"x"),
        ],
    )
    def test_a_record_at_which_a_function_raises_is_bad(self, spark, bad_offsets, expression, good, bad):
        """A null is read as a null."""
        assert [raises(spark, expression, payload) for payload in (good, bad)] == [False, True]
        assert bad_offsets(expression, [good, bad, None]) == [1]

    @pytest.mark.parametrize("expression", [f"unhex({TEXT})", f"to_date({TEXT}, 'yyyy')"])
    def test_a_record_of_which_a_parser_makes_null_is_bad(self, bad_offsets, expression):
        """The null would be a value that the producer never sent."""
        assert bad_offsets(expression, [b"2024", b"?!", None]) == [1]

    @pytest.mark.parametrize(
        ("expression", "payload"),
        [
            (f"element_at(str_to_map({TEXT}), 'b')", b"a:1"),
            (f"str_to_map({TEXT})[{TEXT}]", b"a:1"),
            (f"variant_get(parse_json({TEXT}), '$.id', 'int')", b"{}"),
            (f"parse_url({TEXT}, 'QUERY', 'id')", b"http://a/?b=1"),
            (f"element_at(array({TEXT}, null), 2)", b"a"),
            (f"decode({TEXT}, 'a', 1)", b"b"),
        ],
    )
    def test_a_null_that_is_a_value_is_no_sign_of_a_bad_record(self, bad_offsets, expression, payload):
        """A key that a map lacks, and a path that a document lacks, have the value null."""
        assert bad_offsets(expression, [payload, None]) == []

    def test_the_reason_names_the_field_and_the_function(self, spark, empty):
        """A transform may have many functions."""
        transform = parsing(Transform(("offset", f"{LINE}[1] AS x", f"unhex({TEXT}) AS y")), empty)
        topic = spark.createDataFrame([(0, 0, bytearray(b"a")), (0, 1, bytearray(b"a,b"))], SCHEMA)

        reasons = [row[REASON] for row in transform.bad(transform.judged(topic)).collect()]

        assert reasons == [
            "spec.transform.select[1]: an array has no such element.",
            "spec.transform.select[2]: unhex cannot read the payload.",
        ]

    @pytest.mark.parametrize(
        "expression",
        [f"if(size({LINE}) > 1, {LINE}[1], 'none')", f"decode(size({LINE}), 1, 'none', {LINE}[1])", f"get({LINE}, 1)"],
    )
    def test_a_condition_decides_where_an_element_may_be_missing(self, bad_offsets, expression):
        """SQL computes only one branch."""
        assert bad_offsets(expression, [b"a", b"a,b"]) == []

    def test_a_function_without_arguments_reads_no_payload(self, empty):
        """`unix_timestamp()` returns the current time."""
        transform = parsing(Transform(("unix_timestamp() AS now", f"cast({TEXT} AS int) AS number")), empty)

        assert [[parser.reason for parser in level] for level in transform.levels] == [
            ["spec.transform.select[1]: cast cannot read the payload."]
        ]

    def test_a_record_at_which_the_filter_raises_is_bad(self, bad_offsets):
        """The error of the filter once ended the job, too."""
        assert bad_offsets("offset", [b"a,b", b"a", b"a,c"], where=f"{LINE}[1] = 'b'") == [1]

    def test_a_filter_may_have_a_parser_of_the_projection_in_a_condition(self, bad_offsets):
        """The filter is computed before the parsers of the projection."""
        where = f"cast({LINE}[0] AS int) > if({LINE}[1] = 'a', 0, cast({LINE}[1] AS int))"

        assert bad_offsets(f"cast({LINE}[1] AS int)", [b"1,0", b"5,3", b"x,1", b"2,a", b"1,4"], where=where) == [2, 3]

    def test_columns_of_one_line_are_read_in_one_step(self, empty):
        """A step for each column would be a deep plan for each batch."""
        transform = parsing(Transform(tuple(f"{LINE}[{at}] AS c{at}" for at in range(20))), empty)

        assert len(transform.levels) == 1

    def test_the_elements_of_one_array_are_read_together(self, bad_offsets):
        """Two columns of one line, as in a file of separated values."""
        assert bad_offsets(f"struct({LINE}[0] AS a, cast({LINE}[1] AS int) AS b)", [b"a,1", b"a,b", b"a"]) == [1, 2]


class TestADocumentThatIsNoObject:
    """`from_json` of an array or a map returns null for an element of another type, and keeps the other elements."""

    def test_an_array_with_a_wrong_element_is_bad(self, bad_offsets):
        """It was a row with a null, as if the producer had sent a null."""
        payloads = [b'[{"id": 1}, {}]', b'[{"id": 1}, {"id": "two"}]', b"[", b"7", b"", None, b"[]", b'{"id": 3}']

        assert bad_offsets(f"from_json({TEXT}, 'array<struct<id: bigint>>')", payloads) == [1, 2, 3, 4]

    def test_a_map_with_a_wrong_value_is_bad(self, bad_offsets):
        """As in an array."""
        payloads = [b'{"a": 1, "b": null}', b'{"a": 1, "b": "x"}', b"[1]", None]

        assert bad_offsets(f"from_json({TEXT}, 'map<string, int>')", payloads) == [1, 2]

    def test_options_of_the_parser_are_kept(self, bad_offsets):
        """Its mode decides nothing: a bad record never becomes a row."""
        options = "map('MODE', 'PERMISSIVE', 'allowSingleQuotes', 'false')"

        assert bad_offsets(
            f"from_json({TEXT}, 'array<struct<`a b`: string>>', {options})", [b'[{"a b": "c"}]', b"['a']"]
        ) == [1]
