"""A new Java is prepared for the work that a job needs, and for no other."""

import pytest

from backfill_core.pacing.warm_up import ROWS_MIN, WarmUp, warm_ups

LARGE = ROWS_MIN


def chosen(*select, where=None, rows=LARGE, by_file=True):
    return warm_ups(select, where, rows=rows, by_file=by_file)


class TestTheFirstWrite:
    """The first write of a Java takes seconds, and a job without a limit waits for it."""

    @pytest.mark.parametrize(
        ("select", "where"), [(("id", "md5(note) AS note"), None), (("id", "note || '' AS note"), None), ((), "id > 7")]
    )
    def test_is_prepared_for_computed_columns_and_filters(self, select, where):
        """Their files are decoded."""
        assert WarmUp.FIRST_WRITE in chosen(*select, where=where)

    @pytest.mark.parametrize("select", [(), ("id", "note AS text"), ("`odd name`", "nested.field")])
    def test_is_not_prepared_for_copied_columns(self, select):
        """Their files are copied without Spark."""
        assert not chosen(*select)

    def test_is_prepared_for_rows_that_are_read_by_key_or_from_a_topic(self):
        """These are decoded in any case."""
        assert chosen(by_file=False) == {WarmUp.FIRST_WRITE}

    def test_is_not_prepared_for_a_short_job(self):
        """It ends before a preparation would."""
        assert not chosen(where="id > 7", rows=LARGE - 1)


class TestTheTablesOfCases:
    """Spark computes them at the first use of `upper`, which takes two seconds of a core."""

    @pytest.mark.parametrize("expression", ["upper(a) AS a", "concat(LOWER (a), b) AS c", "initcap(a) AS a"])
    def test_are_loaded_for_expressions_that_use_them(self, expression):
        """Also in a short job: its check computes a few rows."""
        assert WarmUp.CASE_TABLES in chosen("id", expression, rows=1)
        assert WarmUp.CASE_TABLES in chosen(where=f"{expression.partition(' AS')[0]} = 'x'", rows=1)

    @pytest.mark.parametrize("expression", ["flower(a) AS a", "upper AS b", "trim(a) AS lower"])
    def test_are_not_loaded_for_similar_names(self, expression):
        """Two seconds of a core are spent only where they are saved."""
        assert WarmUp.CASE_TABLES not in chosen("id", expression)
