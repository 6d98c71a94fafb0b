"""Tests of `backfill_core.file_copies`: a file is copied only if a reader of the target then sees the same values as after
decoding."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.copy_modes import (
    PARTLY_COMPUTED_ROWS_MIN,
    Decoded,
    Excluded,
    PartlyComputed,
    Projected,
    Reason,
    Whole,
    of_file,
    of_table,
)
from backfill_core.file_copies.facts import (
    ColumnFacts,
    Computed,
    FileFacts,
    TableFacts,
    Taken,
    TransformFacts,
    UnsupportedColumn,
)
from backfill_core.file_copies.filters import And, Column, Comparator, Compare, Literal, Nulls, Opaque, Values
from backfill_core.file_copies.unknown_columns import kept_of_files, with_known_columns

LETTERS = "abcd"
LONG = '"long"'
MANY = PARTLY_COMPUTED_ROWS_MIN


def table(*names, **facts):
    return TableFacts(tuple(ColumnFacts(name, name, LONG) for name in names), **facts)


def as_is(*names):
    return TransformFacts({name: Taken(name) for name in names})


def changed(facts, name, **change):
    columns = tuple(replace(column, **change) if column.name == name else column for column in facts.columns)
    return replace(facts, columns=columns)


def mode_of(transform, source, target, file=FileFacts(rows=3)):
    return of_file(of_table(transform, source, target), transform, source, target, file)


# ---------------------------------------------------------------------- a reader, implemented without the code under
# test
def read(facts, content, partition):
    """Return the row of a file that a reader of the table sees, by column name."""
    return {
        column.name: partition.get(column.physical) if column.name in facts.partitions else content.get(column.physical)
        for column in facts.columns
    }


@st.composite
def jobs(draw):
    names = draw(st.lists(st.sampled_from(LETTERS), min_size=1, unique=True))
    physical = draw(st.one_of(st.just(names), st.permutations(LETTERS)))
    columns = tuple(ColumnFacts(name, inside, LONG) for name, inside in zip(names, physical, strict=False))
    parts = tuple(draw(st.lists(st.sampled_from(names), max_size=1)))
    source = TableFacts(columns, parts)
    kept = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    outputs = {draw(st.sampled_from([column, f"{column}2"])): Taken(column) for column in kept}
    if draw(st.integers(0, 9)) == 0:
        outputs["extra"] = Computed("extra")
    source_columns = source.by_name
    physical_names = {
        name: draw(st.sampled_from([name, source_columns[output.column].physical]))
        if isinstance(output, Taken)
        else name
        for name, output in outputs.items()
    }
    if len(set(physical_names.values())) < len(physical_names):
        physical_names = {name: name for name in outputs}
    columns_drawn = tuple(ColumnFacts(name, inside, LONG) for name, inside in physical_names.items())
    spare = draw(st.sampled_from(["", *{"spare", *LETTERS} - set(physical_names.values())]))
    columns_drawn += (ColumnFacts("spare", spare, LONG),) if spare else ()
    by_source = {output.column: name for name, output in outputs.items() if isinstance(output, Taken)}
    same = tuple(by_source[column] for column in parts if column in by_source)
    target = TableFacts(columns_drawn, draw(st.sampled_from([same, same, ()])))
    # Some writers store partition columns in files, too.
    added_later = {*draw(st.sets(st.sampled_from(names))), *draw(st.sampled_from([parts, ()]))}
    content = {column.physical: f"in {column.physical}" for column in columns if column.name not in added_later}
    partition = {source_columns[column].physical: draw(st.sampled_from(["p", "", None])) for column in parts}
    return TransformFacts(outputs), source, target, content, partition


def value_of(output, seen):
    """Return the value that decoding gives a column of the target."""
    match output:
        case Taken(column):
            return seen[column]
        case Computed():
            return "computed"
    return None


class TestAReaderSeesTheSame:
    """A reader sees the same rows and values, whatever the two tables call their columns."""

    @given(jobs())
    def test_a_file_that_is_not_decoded_has_the_same_values(self, job):
        """Bytes under the source's names must be the values under the target's names."""
        transform, source, target, content, partition = job
        planned = mode_of(transform, source, target, FileFacts(MANY, partition=partition))
        if isinstance(planned, Decoded):
            return
        mode = with_known_columns(planned, kept_of_files(source, transform), [(name,) for name in content])
        assert not isinstance(mode, Decoded), "the footer changes the decision of the plan"
        stored = dict(content)
        if not isinstance(mode, Whole):
            taken = mode.taken if isinstance(mode, PartlyComputed) else mode
            renamed = dict(taken.renamed)
            stored = {renamed.get(name, name): value for name, value in content.items() if name not in taken.pruned}
        if isinstance(mode, PartlyComputed):
            stored |= {target.by_name[name].physical: "computed" for name in mode.computed}
        source_columns, target_columns = source.by_name, target.by_name
        parts = {
            target_columns[name].physical: partition[source_columns[output.column].physical] or None
            for name, output in transform.outputs.items()
            if name in target.partitions
        }
        seen = read(source, content, {name: text or None for name, text in partition.items()})

        row_seen = read(target, stored, parts)

        assert row_seen == {name: value_of(transform.outputs.get(name), seen) for name in target_columns}
        assert set(stored) <= {column.physical for column in target.columns}, (
            "an excluded column is in the target's files"
        )

    def test_an_excluded_column_does_not_stay_in_the_file(self):
        """The column may be excluded because no user may read it in the target."""
        mode = mode_of(as_is("a"), table("a", "b"), table("a"))

        assert mode == Projected(renamed=(), pruned=("b",))

    def test_another_order_of_columns_needs_no_other_file(self):
        """Readers find columns by name."""
        assert mode_of(as_is("b", "a"), table("a", "b"), table("b", "a")) == Whole()

    def test_a_renamed_column_is_renamed_in_the_footer(self):
        """The column chunks stay unchanged."""
        transform = TransformFacts({"a": Taken("a"), "c": Taken("b")})

        assert mode_of(transform, table("a", "b"), table("a", "c")) == Projected((("b", "c"),), ())


PLAIN = (as_is("a", "b"), table("a", "b"), table("a", "b"), FileFacts(3, {"a": 0, "b": 0}))

COMPUTED = TransformFacts({"a": Taken("a"), "b": Computed("b")})

HAZARDS = {
    "a filter": (replace(PLAIN[0], condition=Opaque("x LIKE y")), *PLAIN[1:], Reason.FILTER),
    "Changelog": (replace(PLAIN[0], adds_columns=True), *PLAIN[1:], Reason.WRITE_MODE),
    "mostly computed": (
        TransformFacts({"a": Taken("a"), "b": Computed("b"), "c": Computed("c")}),
        PLAIN[1], table("a", "b", "c"), PLAIN[3], Reason.MOSTLY_COMPUTED,
    ),
    "only computed": (TransformFacts({"a": Computed("a")}), PLAIN[1], table("a"), PLAIN[3], Reason.MOSTLY_COMPUTED),
    "computed, small": (COMPUTED, *PLAIN[1:3], FileFacts(MANY - 1), Reason.FEW_ROWS),
    "computed, hidden": (
        COMPUTED, PLAIN[1], replace(PLAIN[2], vectors=True), FileFacts(MANY, has_vector=True), Reason.HIDDEN_ROWS,
    ),
    "computed, hidden nulls": (
        TransformFacts({"a": Taken("a"), "b": Computed("b", may_fail=False)}),
        PLAIN[1], changed(replace(PLAIN[2], vectors=True), "b", takes_null=False), FileFacts(MANY, has_vector=True),
        Reason.HIDDEN_ROWS,
    ),
    "computed partition": (COMPUTED, PLAIN[1], replace(PLAIN[2], partitions=("b",)), PLAIN[3], Reason.PARTITIONS),
    "taken twice": (TransformFacts({"a": Taken("a"), "b": Taken("a")}), *PLAIN[1:], Reason.TAKEN_TWICE),
    "another type": (PLAIN[0], PLAIN[1], changed(PLAIN[2], "b", type='"integer"'), PLAIN[3], Reason.TYPE),
    "widened": (PLAIN[0], changed(PLAIN[1], "b", oddity=UnsupportedColumn.TYPE_CHANGED), *PLAIN[2:], Reason.COLUMN),
    "widened both, and told": (
        PLAIN[0], changed(PLAIN[1], "b", widened="int, long"), changed(PLAIN[2], "b", widened="short, long"), PLAIN[3],
        Reason.COLUMN,
    ),
    "widened, told by one": (PLAIN[0], changed(PLAIN[1], "b", widened="int, long"), *PLAIN[2:], Reason.COLUMN),
    "widened, projected": (
        as_is("b"), changed(PLAIN[1], "b", widened="x"), changed(table("b"), "b", widened="x"), PLAIN[3], Reason.COLUMN,
    ),
    "widened partition": (
        PLAIN[0], changed(replace(PLAIN[1], partitions=("b",)), "b", widened="x"),
        changed(replace(PLAIN[2], partitions=("b",)), "b", widened="x"), FileFacts(3, partition={"b": "1"}), Reason.COLUMN,
    ),
    "char": (PLAIN[0], changed(PLAIN[1], "b", oddity=UnsupportedColumn.LENGTH), *PLAIN[2:], Reason.COLUMN),
    "mapped by id": (PLAIN[0], replace(PLAIN[1], mapped_by_id=True), *PLAIN[2:], Reason.MAPPED_BY_ID),
    "unknown": (PLAIN[0], replace(PLAIN[1], features=frozenset({"tomorrow"})), *PLAIN[2:], Reason.SOURCE_FEATURE),
    "row ids": (PLAIN[0], replace(PLAIN[1], features=frozenset({"rowTracking"})), *PLAIN[2:], Reason.SOURCE_FEATURE),
    "target": (*PLAIN[:2], replace(PLAIN[2], features=frozenset({"tomorrow"})), PLAIN[3], Reason.TARGET_FEATURE),
    "flat": (PLAIN[0], replace(PLAIN[1], partitions=("a",)), *PLAIN[2:], Reason.PARTITIONS),
    "cut": (*PLAIN[:2], replace(PLAIN[2], partitions=("a",)), PLAIN[3], Reason.PARTITIONS),
    "uncounted": (*PLAIN[:3], FileFacts(None), Reason.NO_COUNT),
    "a clone": (*PLAIN[:3], FileFacts(3, is_elsewhere=True), Reason.ELSEWHERE),
    "a vector": (*PLAIN[:3], FileFacts(3, has_vector=True), Reason.VECTOR),
    "a null": (*PLAIN[:2], changed(PLAIN[2], "b", takes_null=False), FileFacts(3, {"b": 1}), Reason.NULLS),
    "unsaid nulls": (*PLAIN[:2], changed(PLAIN[2], "b", takes_null=False), FileFacts(3), Reason.NULLS),
    "swapped": (TransformFacts({"a": Taken("b"), "b": Taken("a")}), *PLAIN[1:], Reason.NAME),
    "dots": (as_is("a.x"), table("a.x", "b"), table("a.x"), FileFacts(3), Reason.NAME),
}  # fmt: skip


class TestInDoubtItIsDecoded:
    """Each single hazard makes a file decoded, and the plan shows the reason."""

    @pytest.mark.parametrize("case", HAZARDS.values(), ids=HAZARDS.keys())
    def test_a_hazard_makes_a_file_decoded(self, case):
        """One hazard is enough."""
        *facts, reason = case

        assert mode_of(*facts).reason is reason

    def test_all_hazards_of_a_table_are_named_at_once(self):
        """Otherwise a user removes one after the other, with a plan for each (fault U10)."""
        source = changed(replace(PLAIN[1], partitions=("a",), mapped_by_id=True), "b", oddity=UnsupportedColumn.LENGTH)
        mode = mode_of(replace(PLAIN[0], adds_columns=True), source, *PLAIN[2:])

        reasons = [decoded.reason for decoded in (mode, *mode.more)]
        assert reasons == [Reason.WRITE_MODE, Reason.MAPPED_BY_ID, Reason.COLUMN, Reason.PARTITIONS]
        assert str(mode).startswith("the write mode adds columns; the source maps its columns by id; ")
        assert str(mode).endswith("partitioned by different columns (source by a, target by no column)")

    def test_a_file_without_a_hazard_is_copied(self):
        """Without this, the test above would prove nothing; footers show the columns that a table dropped."""
        assert mode_of(*PLAIN) == mode_of(PLAIN[0], replace(PLAIN[1], drops=True), *PLAIN[2:]) == Whole()

    def test_a_large_file_gets_its_computed_columns(self):
        """Without this, the hazards above would prove nothing; hidden rows do no harm where no row can fail."""
        mode = PartlyComputed(Projected((), ("b",)), ("b",))
        safe = TransformFacts({"a": Taken("a"), "b": Computed("b", may_fail=False)})
        vectors = replace(PLAIN[2], vectors=True)

        assert mode_of(COMPUTED, *PLAIN[1:3], FileFacts(MANY)) == mode
        assert mode_of(safe, PLAIN[1], vectors, FileFacts(MANY, has_vector=True)) == mode

    def test_a_type_that_became_wider_in_both_tables_is_copied(self):
        """Readers of the target learn of it like readers of the source; in an excluded column it does not matter."""
        source, target = (changed(facts, "b", widened="int, long") for facts in PLAIN[1:3])

        assert mode_of(PLAIN[0], source, target, PLAIN[3]) == Whole()
        assert mode_of(as_is("a"), source, table("a"), PLAIN[3]) == Projected((), ("b",))

    def test_a_vector_is_copied_to_a_target_that_supports_it(self):
        """The file keeps its vector."""
        transform, source, target, _ = PLAIN
        target = replace(target, vectors=True)

        assert mode_of(transform, source, target, FileFacts(3, has_vector=True)) == Whole()

    @pytest.mark.parametrize(
        ("text", "reason"),
        [("2024-01-01T00:00:00.000000Z", None), ("2024-01-01 00:00:00", Reason.PARTITION_VALUE), (None, None)],
    )
    def test_a_partition_time_without_a_zone_makes_a_file_decoded(self, text, reason):
        """Without a zone each session reads another instant."""
        source = changed(table("a", "b", partitions=("a",)), "a", is_instant=True)
        target = table("a", "b", partitions=("a",))

        mode = mode_of(as_is("a", "b"), source, target, FileFacts(3, partition={"a": text}))

        assert mode == Whole() if reason is None else mode.reason is reason

    def test_an_empty_partition_value_in_a_not_null_column_makes_a_file_decoded(self):
        """An empty string is null in Delta."""
        source = table("a", "b", partitions=("a",))
        target = changed(source, "a", takes_null=False)

        mode = mode_of(as_is("a", "b"), source, target, FileFacts(3, partition={"a": ""}))

        assert mode.reason is Reason.NULLS


MOSTLY = Decoded(Reason.MOSTLY_COMPUTED, "b")


class TestAFilter:
    """The known values of a file decide the filter, independent of all other decisions."""

    LESS = Compare(Comparator.LESS, Column("a"), Literal(10))
    FILES = (Values(0, 5, Nulls.NONE), Values(0, 50, Nulls.NONE), Values(10, 50))

    @pytest.mark.parametrize(
        ("outputs", "modes"),
        [
            ({"a": Taken("a"), "b": Taken("b")}, [Whole(), Decoded(Reason.FILTER), Excluded()]),
            ({"b": Taken("b")}, [Projected((), ("a",)), Decoded(Reason.FILTER), Excluded()]),
            (
                {"a": Taken("a"), "b": Computed("b")},
                [PartlyComputed(Projected((), ("b",)), ("b",)), Decoded(Reason.FILTER), Excluded()],
            ),
            ({"b": Computed("b")}, [MOSTLY, MOSTLY, Excluded()]),
        ],
        ids=["as it is", "without the column", "computed", "only computed"],
    )
    def test_a_filter_keeps_the_copy_mode_or_excludes_the_file(self, outputs, modes):
        """An excluded file is not read, even if all other files are decoded."""
        transform = TransformFacts(outputs, self.LESS)
        source, target = table("a", "b"), table(*outputs)

        assert [
            mode_of(transform, source, target, FileFacts(MANY, {}, values={"a": values})) for values in self.FILES
        ] == modes

    def test_the_reason_names_the_part_that_the_log_does_not_decide(self):
        """The user may rewrite this part."""
        transform = replace(PLAIN[0], condition=And((self.LESS, Opaque("b LIKE 'x'"))))
        mode = mode_of(transform, *PLAIN[1:3], FileFacts(3, {}, values={"a": Values(0, 5, Nulls.NONE)}))

        assert str(mode) == "the log does not decide the filter (b LIKE 'x')"
