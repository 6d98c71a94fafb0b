"""SQL that a transform may contain: deterministic expressions of one row, and nothing else."""

import re
from contextlib import suppress

import pytest
from pyspark.errors import PySparkException
from support.tables.expressions import ANOTHER_EACH_TIME, NOT_OF_ONE_ROW, ORDINARY, SCHEMA, VOID

from backfill_core.errors import InvalidTransformError
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import java, java_session
from backfill_spark.rows.row_wise import find_fault
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import CHANGELOG

GROUPS = {"misc_funcs", "datetime_funcs"}
CONSTANTS = {"make_dt_interval", "make_interval", "make_ym_interval"}
"""Functions of these groups that return a constant without an argument."""


@pytest.fixture(scope="module")
def empty(spark):
    return spark.createDataFrame([], SCHEMA)


def refusal(frame, select=None, where=None):
    """Return the message of a refusal, or None."""
    try:
        Transform(select, where).check(frame)
    except InvalidTransformError as error:
        return error.message if error.hint else "no hint"
    return None


class TestWhatPeopleWrite:
    """A check that refuses ordinary SQL is useless."""

    def test_ordinary_sql_is_accepted(self, empty):
        """All expressions are checked at once. If one is refused, the check itself searches for it."""
        assert refusal(empty, tuple(ORDINARY)) is None
        conditions = " AND ".join(
            f"({condition})" for condition in ("ok", "ts >= '2024-01-01'", "s RLIKE 'now'", "exists(nums, e -> e = n)")
        )
        assert refusal(empty, None, conditions) is None
        assert refusal(empty, ("*", "n + 1 AS more", "more * 2 AS twice_more")) is None


class TestWhatIsAnotherEachTime:
    """Clock, chance, user and place change such an expression.

    After a restart the remaining rows would be computed differently.
    """

    def test_an_expression_that_changes_is_refused(self, empty):
        """After a restart the remaining rows would differ."""
        assert [
            expression
            for expression in ANOTHER_EACH_TIME
            if find_fault(empty, (f"{expression} AS x",), filters=False) is None
        ] == []

    def test_a_filter_that_changes_is_refused(self, empty):
        """The filter also applies to changes that come days later."""
        for condition in ("ts > 'now'", "d >= date'today'", "d < current_date()", "rand() > 0.5"):
            assert refusal(empty, None, condition).startswith("spec.transform.where = ")

    def test_the_changing_expression_is_named(self, empty):
        """A spec may have many expressions."""
        assert refusal(empty, ("id", "to_date('now') AS x")).startswith(
            "spec.transform.select[1] = \"to_date('now') AS x\""
        )

    def test_only_constants_pass_among_functions_without_arguments(self, spark):
        """This holds for any future version of Spark: a value without an input is a constant, or depends on the environment."""
        catalog = java_session(spark).sessionState().catalog()
        frame = spark.createDataFrame([], "id int")
        passed = set()
        for name in (row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if re.fullmatch(r"\w+", row[0])):
            function = catalog.lookupFunctionInfo(java(spark).org.apache.spark.sql.catalyst.FunctionIdentifier(name))
            if function.getGroup() in GROUPS:
                with suppress(PySparkException):
                    frame.selectExpr(f"{name}() AS x")
                    passed.add(name)
        kept = {name for name in passed if find_fault(frame, (f"{name}() AS x",), filters=False) is None}

        assert kept == CONSTANTS


class TestWhatIsNotOfOneRow:
    """Before, a job of 100 rows could be Complete with 180."""

    def test_an_expression_of_several_rows_is_refused(self, empty):
        """A split sees only its own rows."""
        assert [
            expression for expression in NOT_OF_ONE_ROW if find_fault(empty, (expression,), filters=False) is None
        ] == []

    def test_a_filter_of_several_rows_is_refused(self, empty):
        """A filter is computed split by split, too."""
        conditions = ["window(ts, '10 minutes').start > '2024-01-01'", "sum(n) OVER () > 1", "id IN (SELECT 1)"]

        assert [condition for condition in conditions if refusal(empty, None, condition) is None] == []


class TestWhatReachesFurther:
    """Spark reads files and URLs while it analyzes, and repeats their content in its errors (fault S2)."""

    @pytest.mark.parametrize(
        "expression",
        [
            """from_avro(CAST(s AS BINARY), '"int"', map('avroSchemaUrl', 'file:{file}'))""",
            """from_xml(s, 'a INT', map('rowValidationXSDPath', '{file}'))""",
            """(SELECT max(value) FROM text.`{file}`)""",
            """(SELECT max(_corrupt_record) FROM json.`{file}`)""",
        ],
        ids=["avro", "xml", "text", "json"],
    )
    def test_sql_that_reads_a_file_is_refused_before_the_file_is_read(self, empty, tmp_path, expression):
        """The message is the same for a file that exists and one that does not."""
        secret = tmp_path / "token"
        secret.write_text("TOPSECRET")
        there = refusal(empty, (f"{expression.format(file=secret)} AS x",))
        gone = refusal(empty, (f"{expression.format(file=tmp_path / 'none')} AS x",))

        assert "TOPSECRET" not in there
        assert there.replace(str(secret), "") == gone.replace(str(tmp_path / "none"), "")

    def test_a_read_from_a_web_server_is_switched_off(self, spark):
        """This also covers names that the check of the SQL does not find."""
        with pytest.raises(JAVA_ERRORS) as failure:
            spark.read.text("http://127.0.0.1:1/x")
        assert "switched.off.by.backfill" in str(failure.value)

    def test_a_read_of_an_entity_in_xml_is_switched_off(self, spark):
        """A document in a row names an entity."""
        assert java(spark).java.lang.System.getProperty("javax.xml.accessExternalDTD") == ""


class TestWhatNoTableHolds:
    """The check runs before a table is made, and blames no feature of the table."""

    def test_a_type_that_no_table_can_store_is_refused(self, empty):
        """Delta's own error comes late and names something else."""
        assert [
            expression
            for expression in VOID
            if "void" not in str(find_fault(empty, (f"{expression} AS x",), filters=False))
        ] == []


class TestWords:
    """Expressions of one row that are deterministic pass.

    Others are refused with the field, the expression and a hint.
    """

    @pytest.mark.parametrize(
        ("select", "where", "message"),
        [
            (("idd",), None, "Did you mean 'id'"),
            (("count(*) AS n",), None, "an aggregate"),
            (("explode(array(id)) AS e",), None, "a generator"),
            (("row_number() OVER (ORDER BY id) AS n",), None, "a window function"),
            (("rand() AS r",), None, "not deterministic"),
            (("uuid() AS r",), None, "not deterministic"),
            (("current_timestamp() AS r",), None, "depends on when"),
            (("current_date() AS r",), None, "depends on when"),
            (("monotonically_increasing_id() AS r",), None, "not deterministic"),
            (("(SELECT max(id) FROM range(3)) AS r",), None, "subquery"),
            (("id", "to_json(struct(*)) AS doc"), None, "a \\* inside an expression"),
            (None, "xxhash64(*) % 2 = 0", "a \\* inside an expression"),
            (("nvl(*) AS first",), None, "a \\* inside an expression"),
            (("id", "amount AS ID"), None, "more than once"),
            (("id +",), None, r"select\[0\]"),
            (None, "amont > 3", "Did you mean 'amount'"),
            (None, "rand() > 0.5", "not deterministic"),
        ],
    )
    def test_a_wrong_transform_is_refused(self, spark, select, where, message):
        """The user learns the field and a correct value."""
        empty = spark.createDataFrame([], "id long, amount double")

        with pytest.raises(InvalidTransformError, match=message):
            Transform(select, where).check(empty)

    def test_a_right_transform_is_accepted(self, spark):
        """A check that is too strict would refuse ordinary queries."""
        empty = spark.createDataFrame([], "id long, amount double")
        Transform(("id", "upper(cast(amount AS string)) AS a", "CASE WHEN id > 3 THEN 1 END AS c"), "amount > 0").check(
            empty
        )
        Transform(("*", "amount * 2 AS twice")).check(empty)

    def test_columns_of_a_changelog_are_reserved(self, spark):
        """Two columns with one name would be ambiguous."""
        with pytest.raises(InvalidTransformError, match="_op"):
            Transform(("id AS _op",)).check(spark.createDataFrame([], "id long"), reserved=CHANGELOG.columns)


class TestASampleComputedTwice:
    """A sample shows expressions that claim to be deterministic and are not.

    It also finds a row that cannot be computed, before the first write.
    """

    @pytest.fixture
    def rows(self, spark):
        return spark.sql("""SELECT id, CAST(id AS int) AS n, CAST(id AS string) AS s, array(id, NULL) AS a, map('k', id) AS m,
            named_struct('x', double('NaN')) AS st, parse_json('{"a": 1}') AS v, TIMESTAMP'2024-01-01 00:00:00' AS ts,
            CAST(NULL AS binary) AS b FROM range(20)""")

    def test_a_deterministic_sample_passes(self, rows):
        """Values of every kind: nulls, maps, NaN inside structs, variants."""
        Transform(None, "n % 2 = 0").check_sample(rows)
        Transform(("*", "100 / (n + 1) AS x", "transform(a, e -> e + 1) AS y")).check_sample(rows)
        Transform(("100 / n AS x",), "n <> 0").check_sample(rows)
        Transform(("id",)).check_sample(rows.where("false"))

    def test_a_copy_without_a_transform_reads_no_sample(self, rows):
        """Such a copy does not pay for a sample at its start."""
        Transform().check_sample(rows.selectExpr("raise_error('read') AS x"))

    @pytest.mark.parametrize(
        "expression", ["aes_encrypt(s, '0000111122223333') AS r", "uuid() AS r", "named_struct('t', now()) AS r"]
    )
    def test_a_sample_that_differs_is_named(self, rows, expression):
        """A function may wrongly claim that it is deterministic."""
        with pytest.raises(InvalidTransformError, match="column 'r'"):
            Transform(("id", expression)).check_sample(rows)

    def test_a_row_that_cannot_be_computed_is_found(self, rows):
        """An error at the first row is cheaper than one after hours."""
        with pytest.raises(
            InvalidTransformError, match=re.escape("spec.transform.select[1] = '100 / n AS x': DIVIDE_BY_ZERO")
        ):
            Transform(("id", "100 / n AS x")).check_sample(rows)


FAILING = {
    "CAST(concat('secret', s) AS int) AS x": "CAST_INVALID_INPUT",
    "map(s, 1, s, 2) AS x": "DUPLICATED_MAP_KEY",
    "to_number(concat('secret', s), '99') AS x": "INVALID_FORMAT.MISMATCH_INPUT",
    "if(n > 5, raise_error(concat('secret ', s)), n) AS x": "USER_RAISED_EXCEPTION",
    "coalesce(assert_true(n < 5, concat('secret ', s)), n) AS x": "USER_RAISED_EXCEPTION",
    "to_timestamp(concat('secret', s), 'yyyy-MM-dd') AS x": "CANNOT_PARSE_TIMESTAMP",
    "from_json(concat('secret', s), 'z int', map('mode', 'FAILFAST')) AS x": "MALFORMED_RECORD_IN_PARSING",
    "element_at(array(n), n + 2) AS x": "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    "parse_json(concat('{secret', s)) AS x": "MALFORMED_RECORD_IN_PARSING",
}


class TestARowThatCannotBeComputed:
    """It is an error of the transform, never a transient one.

    The message names the expression and the kind of error, without the values of the row.
    """

    @pytest.mark.parametrize("expression", FAILING)
    def test_the_failing_expression_is_named_without_its_values(self, spark, expression):
        """Readers of logs may lack permission to read the table."""
        transform = Transform(("n", expression))
        rows = spark.sql("SELECT CAST(id AS int) AS n, CAST(id AS string) AS s FROM range(4, 20)")

        with pytest.raises(JAVA_ERRORS) as failure:
            transform.apply(rows).collect()
        explained = transform.explain_failure(failure.value)
        assert isinstance(explained, InvalidTransformError)
        assert FAILING[expression] in explained.message
        assert "secret" not in explained.message.replace(repr(expression), "")

    def test_other_failures_are_not_the_transforms(self, spark, tmp_path):
        """Only a broken expression may be blamed on the spec."""
        with pytest.raises(PySparkException) as failure:
            spark.read.parquet(str(tmp_path / "nowhere"))
        assert Transform().explain_failure(failure.value) is None
