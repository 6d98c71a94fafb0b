"""Exceptions of the JVM as messages for users."""

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.jvm.errors import RowFailure, first_line, row_failure, without_values
from backfill_spark.jvm.failures import DAMAGED_LOG, Trouble, describe_error, log_conditions, trouble_of
from backfill_spark.jvm.gateway import java

KERNEL = (
    "class com.fasterxml.jackson.databind.node.MissingNode cannot be cast to class com.fasterxml.jackson.databind.node.ObjectNode",
    "Could not parse JSON: {'secret'",
    "Couldn't decode 'secret', expected a long",
    "Couldn't decode [secret], expected an object",
    "Root node at key path is null but field isn't nullable. Root node: {'secret'",
    "No protocol found at version 1",
    "No metadata found at version 1",
)
"""Messages of Kernel about 400 commits that were damaged at random."""


class TestFirstLine:
    def test_the_first_line_names_the_failure_not_the_call(self, spark):
        """py4j's own first line is `An error occurred while calling o115.allFiles`, which is useless in a status."""
        with pytest.raises(Py4JJavaError) as raised:
            java(spark).java.io.FileReader("/no/such/file")
        assert first_line(raised.value) == "FileNotFoundException: /no/such/file (No such file or directory)"

    def test_the_first_line_names_the_cause_too(self, spark):
        """The outermost exception often only wraps the cause."""
        inner = java(spark).java.lang.IllegalStateException("no room\nat all")
        outer = java(spark).java.util.concurrent.CompletableFuture.failedFuture(inner)
        with pytest.raises(Py4JJavaError) as raised:
            outer.get()
        assert first_line(raised.value).startswith("ExecutionException: ")
        assert first_line(raised.value).endswith("; caused by IllegalStateException: no room")

    def test_the_line_of_other_exceptions_is_their_own(self):
        """A status message has space for one short line."""
        assert first_line(ValueError("  a\nb")) == "a"
        assert len(first_line(ValueError("x" * 1000))) == 400


class TestValuesOfRows:
    """Values of rows appear in Spark's messages, and in none of the product's."""

    def test_values_in_names_of_folders_are_left_out(self):
        """The name of a partition folder contains a value of a row."""
        message = "file:/lake/t/email=a b@c.example/day=2024-01-01/part-0.parquet does not exist; see /tmp/x=1"

        assert without_values(message) == "file:/lake/t/email=…/day=…/part-0.parquet does not exist; see /tmp/x=1"
        assert first_line(OSError("/lake/name=Alice/f is gone\nmore")) == "/lake/name=…/f is gone"

    def test_a_row_that_cannot_be_computed_has_its_condition_and_sql_only(self):
        """A user corrects the expression and does not need the value."""
        message = "[CAST_INVALID_INPUT] The value 'secret' is malformed. SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nCAST(s AS int)\n^^^\n"

        assert row_failure(ValueError(message)) == RowFailure("CAST_INVALID_INPUT", "22018", "CAST(s AS int)")
        assert row_failure(ValueError("[UNRESOLVED_COLUMN] `x`. SQLSTATE: 42703")) is None
        assert row_failure(ValueError("SQLSTATE: 22018, in a sentence")) is None


class TestDamage:
    """A damaged log stays damaged when the job retries (faults B6, B7)."""

    @pytest.mark.parametrize("condition", DAMAGED_LOG)
    def test_damage_has_a_condition_of_delta(self, condition):
        """The message names a version and no table."""
        error = ValueError(f"[{condition}] The protocol could not be recovered while Reconstructing version: 3.")

        assert trouble_of(error) is Trouble.DAMAGED
        assert log_conditions(error) == {condition}

    @pytest.mark.parametrize("message", KERNEL)
    def test_damage_has_a_message_of_kernel(self, message):
        """A line of the log contains values of rows. No message repeats them."""
        error = ValueError(message)

        assert trouble_of(error) is Trouble.DAMAGED
        assert "secret" not in describe_error(error)
        assert not log_conditions(error)
