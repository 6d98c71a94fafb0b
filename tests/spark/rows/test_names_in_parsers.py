"""A parser may use the name of another expression of `select`; plain Spark SQL computes the expected rows."""

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from backfill_spark.jvm.gateway import java_frame
from backfill_spark.records.parsing import REASON, is_bad, parsing
from backfill_spark.rows.counted_rows import CountedRows
from backfill_spark.rows.transform import Transform

SCHEMA = (
    StructType()
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("value", BinaryType())
    .add("doc", StructType().add("id", "string").add("text", "string"))
)
PARTS = "split(cast(value AS string), ',') AS parts"
FIRST = "substring_index(cast(value AS string), ',', 1) AS first"


@pytest.fixture(scope="module")
def empty(spark):
    return spark.createDataFrame([], SCHEMA)


@pytest.fixture(scope="module")
def topic(spark):
    """Two records that a parser of a number can read, and one that it cannot read."""
    payloads = ["7,7", "8,8", "x,x"]
    return spark.createDataFrame(
        [(0, at, bytearray(payload.encode()), (payload[0], payload)) for at, payload in enumerate(payloads)], SCHEMA
    )


def bad_offsets(empty, topic, *select, where=None):
    """Return the offsets of bad records; the rows of the other records equal those of plain Spark SQL."""
    plain = Transform(("offset AS at", *select), where)
    plain.check(empty)
    transform = parsing(plain, empty)
    bad = [row["offset"] for row in transform.bad(transform.judged(topic)).collect()]
    rows, expected = transform.apply(topic), plain.apply(topic.where(~topic["offset"].isin(*bad, -1)))
    assert [(field.name, field.dataType) for field in rows.schema] == [
        (field.name, field.dataType) for field in expected.schema
    ]
    assert sorted(map(str, rows.collect())) == sorted(map(str, expected.collect()))
    return bad


class TestAParserOfAnotherExpression:
    """It once ended the job with an AnalysisException: the topic has no such column."""

    @pytest.mark.parametrize(
        "select",
        [
            (FIRST, "cast(first AS int) AS x"),
            (FIRST, "concat(first, '0') AS second", "cast(second AS int) AS third", "cast(third + 1 AS tinyint) AS x"),
            (
                "substring_index(cast(value AS string), ',', 1) AS First",
                "int(FIRST) AS x",
                "cast(first AS bigint) AS y",
            ),
            (PARTS, "cast(element_at(parts, 1) AS int) AS x"),
            (PARTS, "parts[0] AS `a.b`", "cast(`a.b` AS int) AS x"),
            (PARTS, "parts[0] AS `a``b`", "cast(`a``b` AS int) AS x"),
            (PARTS, "struct(parts[0] AS second, doc.text) AS both", "cast(both.second AS int) AS x"),
            (FIRST, "struct(first AS second) AS both", "cast(struct(first, both.second).second AS int) AS x"),
            (FIRST, "from_json(concat('{\"id\":', first, '}'), 'id INT').id AS x"),
            ("doc.id", "cast(id AS int) AS x"),
            ("doc.*", "cast(id AS int) AS x"),
        ],
    )
    def test_a_parser_reads_the_value_of_another_expression(self, empty, topic, select):
        """Its name may have fields, dots, backticks and capitals, and may be one that Spark gives."""
        assert bad_offsets(empty, topic, *select) == [2]

    def test_a_column_of_the_source_hides_a_name(self, empty, topic):
        """Spark resolves a name as a column first."""
        assert (
            bad_offsets(empty, topic, "'no number' AS Partition", "cast(cast(PARTITION AS string) AS int) AS x") == []
        )

    def test_a_variable_of_a_lambda_function_hides_a_name(self, empty, topic):
        """Other names in the function are those of expressions, also if the function has another one inside."""
        nested = "transform(parts, a -> concat_ws('', transform(parts, first -> concat(first, tail)), a))"

        assert bad_offsets(
            empty, topic, PARTS, "'0' AS tail", "'no number' AS first",
            "cast(element_at(transform(parts, First -> concat(first, tail)), 1) AS int) AS x",
            f"cast(element_at({nested}, 1) AS bigint) AS y", "cast(length(first) AS tinyint) AS z",
        ) == [2]  # fmt: skip

    def test_a_name_in_a_condition_is_computed_as_written(self, empty, topic):
        """CASE decides which records a parser reads; the expressions around it keep their names."""
        select = (FIRST, "CASE WHEN first <> 'x' THEN cast(first AS int) END AS x", "to_json(struct(first, x)) AS y")

        assert bad_offsets(empty, topic, *select) == []

    def test_an_expression_that_fails_is_not_computed_for_a_bad_record(self, empty, topic):
        """A parser that does not use the expression refuses the record first."""
        select = (
            "cast(doc.id AS int) AS id",
            "100 div (length(doc.id) + if(doc.id = 'x', -1, 0)) AS share",
            "int(share) AS x",
        )

        assert bad_offsets(empty, topic, *select) == [2]

    def test_an_expression_is_computed_once(self, spark, empty, topic):
        """Its own column and all parsers share the result."""
        transform = parsing(Transform((PARTS, "int(parts[0]) AS x", "bigint(parts[1]) AS y")), empty)
        rows = transform.rows(CountedRows(spark, transform.judged(topic), only=is_bad()).frame)

        assert java_frame(rows).queryExecution().optimizedPlan().toString().count("split(") == 1

    def test_the_reason_names_the_expression_with_the_parser(self, empty, topic):
        """The other expression reads every record."""
        transform = parsing(Transform((FIRST, "cast(first AS int) AS x")), empty)

        (bad,) = transform.bad(transform.judged(topic)).collect()

        assert bad[REASON] == "spec.transform.select[1]: cast cannot read the payload."
