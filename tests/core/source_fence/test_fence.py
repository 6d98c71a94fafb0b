"""A fence holds from one version on, belongs to one job, and ends only by that job or by force."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.source_fence.memory_log import FIRST_MS, MemoryLog, after_entry, table_head

from backfill_core.errors import InvalidSpecError, SourceFencedError, UnsupportedSourceFeatureError
from backfill_core.source_fence.fence import (
    Fenced,
    LogEntry,
    Open,
    Request,
    SourceFence,
    fence_step,
    unfence_step,
)
from backfill_core.source_fence.fenceable import KEPT
from backfill_core.source_fence.table_protocol import FENCED, TableProtocol

OURS = Request("shop/orders", "2026-11-26T22:00:00Z", FIRST_MS + 5000, "entry-1", "change 4711")
THEIRS = Request("shop/other", "2026-11-26T22:01:00Z", FIRST_MS + 6000, "entry-2")
TIMES = {"delta.enableInCommitTimestamps": "true"}


def actions(entry):
    """Return the actions of an entry, one pair of kind and fields for each line."""
    return [next(iter(json.loads(line).items())) for line in entry.lines]


def featured(*names, **more):
    """Return a table whose protocol lists features."""
    return table_head(TableProtocol(1, 7, None, names), **more)


def fenced(head=None, request=OURS):
    """Return a table after a fence."""
    head = head or table_head()
    return after_entry(head, fence_step(head, request))


class TestTheEntry:
    """One commit of three actions: no row, no column and no other property changes."""

    def test_the_entry_of_a_fence_names_the_job_the_reason_and_the_version(self):
        """The version is known before it is written, because the entry is written only as this version."""
        entry = fence_step(table_head(), OURS)

        (_, info), (_, protocol), (_, metadata) = actions(entry)
        assert [kind for kind, _ in actions(entry)] == ["commitInfo", "protocol", "metaData"]
        assert entry.version == 5
        assert (info["operation"], info["txnId"]) == ("FENCE", "entry-1")
        assert protocol == {
            "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", FENCED],
        }  # fmt: skip
        assert json.loads(metadata["configuration"].pop(FENCED)) == {
            "job": "shop/orders", "reason": "change 4711", "time": "2026-11-26T22:00:00Z", "version": 5, "reader": 1, "writer": 2,
        }  # fmt: skip
        assert metadata == table_head().metadata

    def test_the_end_of_a_fence_leaves_the_table_as_it_was(self):
        """Protocol and metadata are those of the version before the fence."""
        lifted = after_entry(fenced(), unfence_step(fenced(), OURS, force=False))

        assert (lifted.protocol, lifted.metadata, lifted.version) == (table_head().protocol, table_head().metadata, 6)

    def test_a_line_of_the_entry_has_no_line_feed(self):
        """A reason may contain any characters, and each line of a commit is one action."""
        entry = fence_step(table_head(), Request("a", OURS.time, 1, "x", 'two\nlines "quoted" \u2028'))

        assert not [line for line in entry.lines if "\n" in line]
        assert after_entry(table_head(), entry).fence.reason == 'two\nlines "quoted" \u2028'

    @given(st.integers(-10, 10))
    def test_the_time_in_a_commit_grows_with_the_version(self, late_ms):
        """Readers search a version by this time, and a clock may be late."""
        head = featured("inCommitTimestamp", properties=TIMES)
        request = Request("a", OURS.time, head.timestamp_ms + late_ms, "x")

        (kind, info), *_ = actions(fence_step(head, request))

        assert kind == "commitInfo"
        assert info["inCommitTimestamp"] == head.timestamp_ms + max(late_ms, 1)

    @pytest.mark.parametrize(
        "head",
        [featured("inCommitTimestamp"), table_head(properties=TIMES | {"delta.enableInCommitTimestamps": "false"})],
    )
    def test_a_table_without_times_in_commits_gets_none(self, head):
        """They need the feature and the property."""
        (_, info), *_ = actions(fence_step(head, OURS))

        assert "inCommitTimestamp" not in info

    def test_a_long_reason_is_refused(self):
        """A table property is copied into every commit of metadata and every checkpoint."""
        with pytest.raises(InvalidSpecError, match="reason: 501 characters, but at most 500"):
            Request("a", OURS.time, 1, "x", "r" * 501)


class TestWhoHoldsTheFence:
    """One job at a time; another one is refused by name, and the log stays unchanged."""

    def test_a_second_fence_of_the_job_is_the_first_one(self):
        """Also later, with another reason, after commits that only our own writer makes."""
        again = fence_step(fenced(), Request(OURS.job, "2027-01-01T00:00:00Z", 1, "y", "another"))

        assert again == Fenced(fenced().fence)
        assert again.fence.version == 5

    @pytest.mark.parametrize("step", [fence_step, lambda *args: unfence_step(*args, force=False)])
    def test_another_job_is_refused_with_the_name_of_the_holder(self, step):
        """The message names the holder, its reason and its version."""
        with pytest.raises(
            SourceFencedError, match=r"fenced by job 'shop/orders' at version 5, .*\(change 4711\)"
        ) as refused:
            step(fenced(), THEIRS)

        assert "'shop/other'" in refused.value.message
        assert "unfence --force" in refused.value.hint

    def test_force_lifts_the_fence_of_another_job(self):
        """The protocol is that from before the fence."""
        lifted = after_entry(fenced(), unfence_step(fenced(), THEIRS, force=True))

        assert lifted.protocol == table_head().protocol
        assert FENCED not in lifted.properties

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"job": "shop/orders"}', "[" * 3000, None, '{"job": 1}'])
    def test_a_fence_without_a_readable_property_ends_only_by_force(self, text):
        """The protocol decides whether a table is fenced, and no job can prove that it set this fence."""
        head = featured("appendOnly", FENCED, properties={} if text is None else {FENCED: text})

        for step in (fence_step, lambda *args: unfence_step(*args, force=False)):
            with pytest.raises(SourceFencedError, match="names no job"):
                step(head, OURS)
        lifted = after_entry(head, unfence_step(head, OURS, force=True))
        assert (lifted.protocol.features, FENCED in lifted.properties) == (("appendOnly",), False)

    def test_the_property_of_a_restored_or_cloned_table_is_no_fence(self):
        """RESTORE and CLONE copy the property and not the feature; the next fence replaces it."""
        copied = table_head(properties={FENCED: fenced().properties[FENCED]}, version=9)

        assert unfence_step(copied, OURS, force=False) == Open(9)
        assert after_entry(copied, fence_step(copied, THEIRS)).fence.job == THEIRS.job

    def test_a_property_from_a_longer_log_is_no_fence(self):
        """Its version does not exist in this table."""
        head = featured(FENCED, properties={FENCED: fenced().properties[FENCED]}, version=3)

        with pytest.raises(SourceFencedError, match="names no job"):
            fence_step(head, OURS)


class TestTablesThatCannotBeFenced:
    """Each is refused with the feature, the property or the versions; nothing is written."""

    @pytest.mark.parametrize(
        ("head", "message"),
        [
            (featured("catalogManaged"), "a catalog decides on its commits .*catalogManaged"),
            (featured("coordinatedCommits-preview"), "a catalog decides on its commits .*coordinatedCommits-preview"),
            (featured("redirectWriterOnly-preview"), "redirects writers .*redirectWriterOnly-preview"),
            (featured("appendOnly", "ofTomorrow"), "does not know the rules of the table feature ofTomorrow"),
            (
                table_head(TableProtocol(3, 5, ("columnMapping",))),
                "protocol .reader version 3, writer version 5. is not",
            ),
            (
                table_head(properties={"delta.coordinatedCommits.commitCoordinator-preview": "x"}),
                "coordinatedCommits.commitCoordinator",
            ),
            (
                table_head(properties={"delta.redirectReaderWriter-preview": "x"}),
                "delta.redirectReaderWriter-preview names",
            ),
            (
                table_head(properties={"delta.enableChangeDataFeed": "TRUE"}),
                "enableChangeDataFeed needs the table feature changeDataFeed",
            ),
            (
                table_head(properties={"delta.columnMapping.mode": "name"}),
                "columnMapping.mode needs the table feature columnMapping",
            ),
            (
                table_head(properties={"delta.constraints.positive": "amount > 0"}),
                "the constraint delta.constraints.positive needs",
            ),
            (
                table_head(TableProtocol(1, 1), {"delta.appendOnly": "true"}),
                "appendOnly needs the table feature appendOnly",
            ),
            (
                table_head(TableProtocol(1, 3), schemaString='{"metadata":{"delta.generationExpression":"1"}}'),
                "generationExpression needs",
            ),
        ],
        ids=lambda value: value[:40] if isinstance(value, str) else "",
    )
    def test_the_refusal_names_the_reason(self, head, message):
        """The hint contains the next step for the user."""
        with pytest.raises(
            UnsupportedSourceFeatureError, match=f"/lake/orders cannot be fenced: .*{message}"
        ) as refused:
            fence_step(head, OURS)

        assert refused.value.hint

    @pytest.mark.parametrize("name", sorted(KEPT))
    def test_a_known_feature_stays(self, name):
        """Deletion vectors, column mapping, row tracking and all others are kept in their list."""
        table = fenced(featured(name))

        assert table.protocol.features == (name, FENCED)

    def test_a_property_that_its_protocol_supports_is_no_obstacle(self):
        """Version 4 implies the change feed."""
        head = table_head(
            TableProtocol(1, 4), {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "none"}
        )

        assert isinstance(fence_step(head, OURS), LogEntry)


JOBS = ("shop/orders", "shop/other")
EVENTS = st.lists(
    st.one_of(
        st.just(("write",)),
        st.tuples(st.just("fence"), st.sampled_from(JOBS), st.integers(0, 3), st.sampled_from(["lives", "dies"])),
        st.tuples(
            st.just("unfence"),
            st.sampled_from(JOBS),
            st.booleans(),
            st.integers(0, 3),
            st.sampled_from(["lives", "dies"]),
        ),
    ),
    max_size=12,
)


def settled(log, step, *, rivals, dies):
    """Run a step to its end as the driver does; other writers commit before some puts, and a killed driver ends after a put."""
    log.before_put = [log.write] * rivals
    try:
        while isinstance(answer := step(log.head()), LogEntry):
            log.put(answer)
            if dies:
                return None
        return answer
    except SourceFencedError:
        return None
    finally:
        log.before_put = []


class TestAnyOrderOfCalls:
    """Writers, two jobs, kills and concurrent commits in any order: only the log decides which job holds the fence."""

    @given(EVENTS, st.sampled_from([(1, 2), (1, 4), (2, 5), (1, 7)]))
    def test_no_write_lands_between_a_fence_and_its_end(self, events, versions):
        """The oracle is the history: the holder by its entries, one entry for each fence, and the state before each fence."""
        protocol = TableProtocol(*versions, None, ("appendOnly",) if versions[1] == 7 else None)
        log = MemoryLog(table_head(protocol))
        begun = (protocol, log.head().metadata)
        for event in events:
            holder, before = log.head().fence, len(log.heads)
            match event:
                case ("write",):
                    assert log.write() == (holder is None)
                case ("fence", job, rivals, life):
                    request = Request(job, OURS.time, FIRST_MS, job)
                    answer = settled(
                        log, lambda head, r=request: fence_step(head, r), rivals=rivals, dies=life == "dies"
                    )
                    if holder is not None:
                        assert len(log.heads) == before
                        assert answer == (Fenced(holder) if holder.job == job else None)
                    elif life == "lives":
                        assert answer == Fenced(log.head().fence)
                        assert answer.fence.version == log.head().version
                        assert log.operations[-rivals - 1 :] == ["WRITE"] * rivals + ["FENCE"]
                case ("unfence", job, force, rivals, life):
                    request = Request(job, OURS.time, FIRST_MS, job)
                    settled(
                        log,
                        lambda head, r=request, f=force: unfence_step(head, r, force=f),
                        rivals=rivals,
                        dies=life == "dies",
                    )
                    may = holder is not None and (force or holder.job == job)
                    assert (len(log.heads) > before) == may
                    assert (log.head().fence is None) == (may or holder is None)
            assert (log.head().protocol.is_fenced, FENCED in log.head().properties) == (
                log.head().fence is not None,
            ) * 2
            if log.head().fence is None:
                assert (log.head().protocol, log.head().metadata) == begun
        assert [head.version for head in log.heads] == list(range(4, 4 + len(log.heads)))
        fences = [operation for operation in log.operations if operation != "WRITE"][1:]
        assert fences == (["FENCE", "UNFENCE"] * len(fences))[: len(fences)]
        for number, operation in enumerate(log.operations):
            assert operation != "WRITE" or log.operations[number - 1] != "FENCE"


class TestTheProperty:
    """Operators read it with SHOW TBLPROPERTIES."""

    @given(st.builds(SourceFence, st.text(), st.text(), st.text(), st.integers(), st.integers(), st.integers()))
    def test_a_fence_is_read_as_it_was_written(self, fence):
        """Also with any characters in the reason."""
        assert SourceFence.decode(fence.encode()) == fence
