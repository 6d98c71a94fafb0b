"""What the JVM's exceptions say to people."""

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.java_errors import first_line


class TestFirstLine:
    def test_names_what_went_wrong_not_the_call(self, spark):
        """py4j's own first line is `An error occurred while calling o115.allFiles`: of no use in a status."""
        with pytest.raises(Py4JJavaError) as raised:
            spark._jvm.java.io.FileReader("/no/such/file")
        assert first_line(raised.value) == "FileNotFoundException: /no/such/file (No such file or directory)"

    def test_names_the_cause_too(self, spark):
        """What was thrown is often a wrapping."""
        inner = spark._jvm.java.lang.IllegalStateException("no room\nat all")
        outer = spark._jvm.java.util.concurrent.CompletableFuture.failedFuture(inner)
        with pytest.raises(Py4JJavaError) as raised:
            outer.get()
        assert first_line(raised.value).startswith("ExecutionException: ")
        assert first_line(raised.value).endswith("; caused by IllegalStateException: no room")

    def test_of_other_exceptions_is_their_own(self):
        """Shortened."""
        assert first_line(ValueError("  a\nb")) == "a"
        assert len(first_line(ValueError("x" * 1000))) == 400
