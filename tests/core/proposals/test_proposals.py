"""A proposal follows from facts of the source, and gives a reason for each decision."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from backfill_api.load import load_backfill
from backfill_core.proposals.manifest_text import manifest_text, scalar
from backfill_core.proposals.payloads import format_of, json_fields
from backfill_core.proposals.propose import propose
from backfill_core.proposals.seen import ColumnSeen, Place, Request, TableSeen, TopicSeen

DELTA = Place("Delta", (("path", "./lake/orders"),))
TARGET = Place("Delta", (("path", "./lake/copy"),))
TOPIC = Place("Kafka", (("bootstrapServers", "broker:9092"), ("topic", "events")))
REQUEST = Request("copy", DELTA, TARGET)
OF_TOPIC = Request("copy", TOPIC, TARGET)

TABLE = TableSeen(
    columns=(
        ColumnSeen("amount", "bigint", repeats=False),
        ColumnSeen("customer_id", "string", repeats=True),
        ColumnSeen("order_id", "bigint", repeats=False),
        ColumnSeen("at", "timestamp"),
    ),
    rows=1_000_000,
    files=8,
    bytes=10**9,
    sampled_rows=200_000,
    change_feed=True,
)
RECORDS = TopicSeen(
    partitions=3, records=5_000, keyed=True, values=(b'{"kind": "a", "n": 1}', b'{"kind": "b", "n": 2.5}')
)


def text(seen=TABLE, request=REQUEST):
    """Return the manifest for a source."""
    return manifest_text(request, propose(seen, request), schema="./backfill.schema.json", file="copy.yaml")


def spec(seen=TABLE, request=REQUEST):
    """Return the spec of the manifest for a source."""
    return load_backfill(text(seen, request)).spec


class TestTheKey:
    """A wrong key loses rows, so a proposed one has evidence."""

    def test_key_has_the_name_of_one_and_no_repeated_value(self) -> None:
        """`amount` has only different values too, but does not identify a row; `customer_id` repeats."""
        assert propose(TABLE, REQUEST).key == ("order_id",)
        assert "200,000 sampled rows" in propose(TABLE, REQUEST).key_reason

    def test_given_key_is_kept(self) -> None:
        """The author knows more than a sample."""
        assert spec(request=replace(REQUEST, key=("customer_id", "at"))).key == ("customer_id", "at")

    def test_table_whose_columns_all_repeat_has_no_key(self) -> None:
        """The reason says what to do."""
        columns = (ColumnSeen("order_id", "bigint", repeats=True), ColumnSeen("x", "bigint", repeats=False))
        proposal = propose(replace(TABLE, columns=columns), REQUEST)
        assert (proposal.key, proposal.strategy.value) == ((), "Replica")

    def test_column_without_an_answer_is_no_key(self) -> None:
        """An empty table has no sample."""
        columns = (ColumnSeen("order_id", "bigint", repeats=None),)
        assert propose(replace(TABLE, columns=columns, rows=0, sampled_rows=0), REQUEST).key == ()


class TestTheStrategy:
    """It follows from the abilities of the table."""

    @pytest.mark.parametrize(
        ("changes", "strategy"),
        [
            ({}, "Snapshot"),
            ({"change_feed": False}, "Replica"),
            ({"columns": (ColumnSeen("x", "double"),)}, "Replica"),
            ({"rows": 10**9, "kept_s": 3600}, "Arrangement"),
            ({"rows": 10**9, "kept_s": 7 * 86_400}, "Snapshot"),
        ],
        ids=["key and feed", "no feed", "no key", "versions gone soon", "versions kept"],
    )
    def test_strategy_follows_from_the_table(self, changes, strategy) -> None:
        """The manifest is valid with each of them."""
        assert spec(replace(TABLE, **changes)).strategy.type == strategy

    @pytest.mark.parametrize("strategy", ["Arrangement", "RearrangedChain", "Replica", "Snapshot"])
    @pytest.mark.parametrize("key", [(), ("order_id",)])
    def test_given_strategy_gives_a_valid_manifest(self, strategy, key) -> None:
        """Fields that the strategy forbids are left out."""
        seen = replace(TABLE, partitions=("at",), columns=TABLE.columns if key else TABLE.columns[:2])
        assert spec(seen, replace(REQUEST, strategy=strategy, key=key)).strategy.type == strategy

    @pytest.mark.parametrize(("feed", "mode"), [(True, "Changelog"), (False, "Append")])
    def test_table_without_a_key_is_not_merged(self, feed, mode) -> None:
        """An Upsert needs a key."""
        seen = replace(TABLE, columns=(ColumnSeen("x", "double"),), change_feed=feed)
        assert spec(seen, replace(REQUEST, strategy="Snapshot")).write_mode == mode


class TestTheLayout:
    """Partitions cost readers of small tables more than they save."""

    def test_partitions_of_the_source_are_kept(self) -> None:
        """Readers of the source filter by them."""
        assert spec(replace(TABLE, partitions=("at",))).target.params.partition_by == ("at",)

    def test_small_table_gets_no_partitions(self) -> None:
        """The reason names its size."""
        assert "1,000 MB" in propose(TABLE, REQUEST).partitions_reason

    def test_replica_has_the_layout_of_its_source(self) -> None:
        """The models refuse the field there."""
        assert propose(replace(TABLE, partitions=("at",), change_feed=False), REQUEST).partitions == ()


class TestATopic:
    """Its records have fields only if the payload shows them."""

    def test_json_payload_becomes_columns(self) -> None:
        """Names and types are those of the sampled records."""
        assert spec(RECORDS, OF_TOPIC).transform.select[-1] == (
            "from_json(CAST(value AS STRING), 'kind STRING, n DOUBLE') AS record"
        )

    @pytest.mark.parametrize(
        ("values", "last", "comment"),
        [
            ((b"\x00\x00\x00\x00\x07rest",), "value", "schema registry"),
            ((b"\xff\xfe",), "value", "neither JSON nor text"),
            ((), "value", "no record with a payload"),
            ((b"a,b",), "CAST(value AS STRING) AS value", "text, but not JSON"),
        ],
        ids=["registry", "binary", "empty", "text"],
    )
    def test_other_payload_has_a_comment(self, values, last, comment) -> None:
        """A guess would be read as a fact."""
        seen = replace(RECORDS, values=values)
        assert spec(seen, OF_TOPIC).transform.select[-1] == last
        assert comment in text(seen, OF_TOPIC)

    def test_payload_with_too_many_fields_stays_text(self) -> None:
        """An expression of a spec has a longest length."""
        value = json.dumps({f"{'x' * 100}{number}": 1 for number in range(300)}).encode()
        assert (
            spec(replace(RECORDS, values=(value,)), OF_TOPIC).transform.select[-1] == "CAST(value AS STRING) AS value"
        )

    def test_compacted_topic_is_merged_by_its_key(self) -> None:
        """The newest record of a key replaces the earlier ones, as in the topic."""
        merged = spec(replace(RECORDS, compacts=True), OF_TOPIC)
        assert (merged.write_mode, merged.key) == ("Upsert", ("record_key",))

    def test_other_topic_is_appended(self) -> None:
        """Each record is a row."""
        assert (spec(RECORDS, OF_TOPIC).write_mode, spec(RECORDS, OF_TOPIC).key) == ("Append", ())

    def test_long_history_is_read_in_about_an_hour(self) -> None:
        """The brokers also serve producers."""
        assert spec(replace(RECORDS, records=1_234_567_890), OF_TOPIC).throttle.rows_per_second == 340_000


class TestTheText:
    """It is YAML with the reasons as comments, whatever the names are."""

    def test_each_decision_has_its_reason(self) -> None:
        """An author changes a value whose reason does not hold."""
        lines = [line.partition("#") for line in text().splitlines()]
        reasons = {field.split(":")[0].strip(): reason for field, _, reason in lines if field.strip()}
        for field in ("key", "writeMode", "type", "throttle"):
            assert reasons[field].strip(), field

    def test_first_line_names_the_schema(self) -> None:
        """Editors with the YAML language server read it."""
        assert text().splitlines()[0] == "# yaml-language-server: $schema=./backfill.schema.json"

    @given(st.text(min_size=1, max_size=20))
    def test_scalar_is_read_back_as_the_same_string(self, given) -> None:
        """A column may be called `yes`, `1e3` or `a: b`."""
        assert yaml.safe_load(f"x: {scalar(given)}") == {"x": given}

    @given(
        st.lists(
            st.builds(ColumnSeen, st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12), st.sampled_from(["int", "string", "double"]), st.sampled_from([True, False, None])),
            min_size=1, max_size=5, unique_by=lambda column: column.name,
        ),
        st.booleans(),
        st.integers(0, 10**10),
    )  # fmt: skip
    def test_every_table_gets_a_valid_manifest(self, columns, feed, rows) -> None:
        """The author edits a file that can be planned."""
        seen = replace(TABLE, columns=tuple(columns), change_feed=feed, rows=rows, partitions=(columns[0].name,))
        assert spec(seen).source.type == "Delta"


class TestPayloads:
    """A format is one that all sampled payloads have."""

    def test_one_other_payload_changes_the_format(self) -> None:
        """A parser for JSON would end the job at that record."""
        assert format_of((b'{"a": 1}', b"a")) == "Text"
        assert format_of((b'{"a": 1}', b"[1]")) == "Text"
        assert format_of((b'{"a": 1}', b"\xff")) == "Binary"

    def test_field_with_several_types_is_a_string(self) -> None:
        """A string holds any of them as JSON."""
        values = [json.dumps({"a": item, "b": True, "c": {"d": 1}, "e": None}).encode() for item in (1, "x")]
        assert json_fields(values) == (("a", "STRING"), ("b", "BOOLEAN"), ("c", "STRING"))
