"""What may stand in a transform: anything row-wise that is the same again, and nothing else."""

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
"""Of these groups, those that make something of nothing, and always the same."""


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
    """A check that refuses ordinary SQL is no check."""

    def test_is_accepted(self, empty):
        """All at once; where something is refused, the check itself looks for it one by one."""
        assert refusal(empty, tuple(ORDINARY)) is None
        conditions = " AND ".join(
            f"({one})" for one in ("ok", "ts >= '2024-01-01'", "s RLIKE 'now'", "exists(nums, e -> e = n)")
        )
        assert refusal(empty, None, conditions) is None
        assert refusal(empty, ("*", "n + 1 AS more", "more * 2 AS twice_more")) is None


class TestWhatIsAnotherEachTime:
    """Of the clock, of chance, of who runs it and where: half of the rows would be computed otherwise after a restart."""

    def test_is_refused(self, empty):
        """A restart would compute the other rows otherwise."""
        assert [one for one in ANOTHER_EACH_TIME if find_fault(empty, (f"{one} AS x",), filters=False) is None] == []

    def test_nor_a_filter_by_it(self, empty):
        """The filter decides for changes that come days later."""
        for condition in ("ts > 'now'", "d >= date'today'", "d < current_date()", "rand() > 0.5"):
            assert refusal(empty, None, condition).startswith("spec.transform.where = ")

    def test_the_expression_is_named(self, empty):
        """A spec may have many expressions."""
        assert refusal(empty, ("id", "to_date('now') AS x")).startswith(
            "spec.transform.select[1] = \"to_date('now') AS x\""
        )

    def test_of_functions_without_arguments_only_constants_pass(self, spark):
        """Whatever Spark's next version brings: a value out of nothing is a constant, or of the world."""
        catalog = java_session(spark).sessionState().catalog()
        one = spark.createDataFrame([], "id int")
        passed = set()
        for name in (row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if re.fullmatch(r"\w+", row[0])):
            known = catalog.lookupFunctionInfo(java(spark).org.apache.spark.sql.catalyst.FunctionIdentifier(name))
            if known.getGroup() in GROUPS:
                with suppress(PySparkException):
                    one.selectExpr(f"{name}() AS x")
                    passed.add(name)
        kept = {name for name in passed if find_fault(one, (f"{name}() AS x",), filters=False) is None}

        assert kept == CONSTANTS


class TestWhatIsNotOfOneRow:
    """180 rows of 100 would be Complete."""

    def test_is_refused(self, empty):
        """A split sees only its own rows."""
        assert [one for one in NOT_OF_ONE_ROW if find_fault(empty, (one,), filters=False) is None] == []

    def test_nor_a_filter_by_it(self, empty):
        """A filter is computed split by split too."""
        conditions = ["window(ts, '10 minutes').start > '2024-01-01'", "sum(n) OVER () > 1", "id IN (SELECT 1)"]

        assert [one for one in conditions if refusal(empty, None, one) is None] == []


class TestWhatReachesFurther:
    """Spark reads files and URLs while it analyzes, and repeats in its errors what it read (fault S2)."""

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
    def test_is_refused_before_it_is_read(self, empty, tmp_path, expression):
        """A file that cannot be read says the same as one that can: nothing."""
        secret = tmp_path / "token"
        secret.write_text("TOPSECRET")
        there = refusal(empty, (f"{expression.format(file=secret)} AS x",))
        gone = refusal(empty, (f"{expression.format(file=tmp_path / 'none')} AS x",))

        assert "TOPSECRET" not in there
        assert there.replace(str(secret), "") == gone.replace(str(tmp_path / "none"), "")

    def test_by_a_web_server_is_switched_off(self, spark):
        """Also for what the check of the text does not know."""
        with pytest.raises(JAVA_ERRORS) as failure:
            spark.read.text("http://127.0.0.1:1/x")
        assert "switched.off.by.backfill" in str(failure.value)

    def test_by_xml_is_switched_off(self, spark):
        """A document of a row names an entity."""
        assert java(spark).java.lang.System.getProperty("javax.xml.accessExternalDTD") == ""


class TestWhatNoTableHolds:
    """Found before a table is made, and no feature of the table is blamed."""

    def test_is_refused(self, empty):
        """Delta's own error comes late and names something else."""
        assert [one for one in VOID if "void" not in str(find_fault(empty, (f"{one} AS x",), filters=False))] == []


class TestWords:
    """Row-wise and deterministic, or refused with the field, the expression and the hint."""

    @pytest.mark.parametrize(
        ("select", "where", "words"),
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
    def test_refused(self, spark, select, where, words):
        """The user learns the field and what to write there."""
        empty = spark.createDataFrame([], "id long, amount double")

        with pytest.raises(InvalidTransformError, match=words):
            Transform(select, where).check(empty)

    def test_accepted(self, spark):
        """A check that is too strict would refuse ordinary queries."""
        empty = spark.createDataFrame([], "id long, amount double")
        Transform(("id", "upper(cast(amount AS string)) AS a", "CASE WHEN id > 3 THEN 1 END AS c"), "amount > 0").check(
            empty
        )
        Transform(("*", "amount * 2 AS twice")).check(empty)

    def test_columns_of_a_changelog_are_reserved(self, spark):
        """Two columns of one name could not be told apart."""
        with pytest.raises(InvalidTransformError, match="_op"):
            Transform(("id AS _op",)).check(spark.createDataFrame([], "id long"), reserved=CHANGELOG.columns)


class TestASampleComputedTwice:
    """What says that it is deterministic and is not; and a row that cannot be computed, before anything is written."""

    @pytest.fixture
    def rows(self, spark):
        return spark.sql("""SELECT id, CAST(id AS int) AS n, CAST(id AS string) AS s, array(id, NULL) AS a, map('k', id) AS m,
            named_struct('x', double('NaN')) AS st, parse_json('{"a": 1}') AS v, TIMESTAMP'2024-01-01 00:00:00' AS ts,
            CAST(NULL AS binary) AS b FROM range(20)""")

    def test_what_is_the_same_again_passes(self, rows):
        """Values of every kind: nulls, maps, NaN inside structs, variants."""
        Transform(None, "n % 2 = 0").check_sample(rows)
        Transform(("*", "100 / (n + 1) AS x", "transform(a, e -> e + 1) AS y")).check_sample(rows)
        Transform(("100 / n AS x",), "n <> 0").check_sample(rows)
        Transform(("id",)).check_sample(rows.where("false"))

    def test_where_nothing_is_computed_nothing_is_read(self, rows):
        """A copy without a transform pays for no sample at its start."""
        Transform().check_sample(rows.selectExpr("raise_error('read') AS x"))

    @pytest.mark.parametrize(
        "expression", ["aes_encrypt(s, '0000111122223333') AS r", "uuid() AS r", "named_struct('t', now()) AS r"]
    )
    def test_what_is_not_is_named(self, rows, expression):
        """A function may only claim that it is deterministic."""
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
    """An error of the transform, never a transient one; named by expression and kind, without the values of the row."""

    @pytest.mark.parametrize("expression", FAILING)
    def test_is_named_without_its_values(self, spark, expression):
        """Logs are read by people who may not read the table."""
        transform = Transform(("n", expression))
        rows = spark.sql("SELECT CAST(id AS int) AS n, CAST(id AS string) AS s FROM range(4, 20)")

        with pytest.raises(JAVA_ERRORS) as failure:
            transform.apply(rows).collect()
        found = transform.explain_failure(failure.value)
        assert isinstance(found, InvalidTransformError)
        assert FAILING[expression] in found.message
        assert "secret" not in found.message.replace(repr(expression), "")

    def test_other_failures_are_not_the_transforms(self, spark, tmp_path):
        """Only a broken expression may be blamed on the spec."""
        with pytest.raises(PySparkException) as failure:
            spark.read.parquet(str(tmp_path / "nowhere"))
        assert Transform().explain_failure(failure.value) is None
