"""A fence changes no feature of a table but its own, and its end restores the earlier protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.source_fence.table_protocol import FENCED, TableProtocol, implied_features

OF_DELTA = {
    # Delta's protocol, "Writer Version Requirements": each writer version with all features that it requires.
    1: "",
    2: "appendOnly invariants",
    3: "appendOnly invariants checkConstraints",
    4: "appendOnly invariants checkConstraints changeDataFeed generatedColumns",
    5: "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping",
    6: "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping identityColumns",
}
NAMES = st.sampled_from(
    ["appendOnly", "invariants", "columnMapping", "deletionVectors", "rowTracking", "domainMetadata"]
)


@st.composite
def protocols(draw):
    """Return any valid protocol of a table without a fence."""
    reader = draw(st.integers(1, 3))
    writer = 7 if reader == 3 else draw(st.integers(1, 7))
    names = tuple(draw(st.lists(NAMES, unique=True)))
    read = tuple(name for name in names if name in ("columnMapping", "deletionVectors"))
    return TableProtocol(reader, writer, read if reader == 3 else None, names if writer == 7 else None)


class TestImpliedFeatures:
    """A list of features replaces the meaning of a writer version, so it must contain all of it."""

    @pytest.mark.parametrize("writer", OF_DELTA)
    def test_a_writer_version_implies_the_features_of_deltas_protocol(self, writer):
        """Column mapping needs readers of version 2 too."""
        names = set(OF_DELTA[writer].split())

        assert set(implied_features(2, writer)) == names
        assert set(implied_features(1, writer)) == names - {"columnMapping"}


class TestAFence:
    """Readers see the same protocol, and every writer sees one feature more."""

    @given(protocols())
    def test_a_fence_adds_one_feature_and_keeps_all_others(self, protocol):
        """The fenced protocol is valid, and what readers check in it is unchanged."""
        fenced = protocol.with_fence()

        assert fenced.is_valid
        assert (fenced.is_fenced, protocol.is_fenced) == (True, False)
        assert set(fenced.features) == {*protocol.features, FENCED}
        assert (fenced.reader, fenced.reader_features) == (protocol.reader, protocol.reader_features)
        assert fenced.writer == 7

    @given(protocols())
    def test_the_end_of_a_fence_restores_the_protocol(self, protocol):
        """Writers that only support an old version can write again."""
        assert protocol.with_fence().without_fence((protocol.reader, protocol.writer)) == protocol

    @given(protocols(), st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 7))))
    def test_wrong_versions_in_the_property_change_no_feature(self, protocol, versions):
        """Anyone may edit a table property; the features of the table do not depend on it."""
        lifted = protocol.with_fence().without_fence(versions)

        assert lifted.is_valid
        assert set(lifted.features) == set(protocol.features)
        assert lifted.reader == protocol.reader

    @given(protocols())
    def test_an_action_contains_the_whole_protocol(self, protocol):
        """The fields are those of the log."""
        assert TableProtocol.of(protocol.fields()) == protocol
        assert ("writerFeatures" in protocol.fields()) == (protocol.writer == 7)

    @pytest.mark.parametrize(
        "protocol",
        [
            TableProtocol(0, 2),
            TableProtocol(1, 8),
            TableProtocol(4, 7, ("a",), ("a",)),
            TableProtocol(1, 7),
            TableProtocol(1, 2, None, ("appendOnly",)),
            TableProtocol(3, 6, ("columnMapping",), None),
            TableProtocol(3, 7, None, ("columnMapping",)),
            TableProtocol(2, 7, ("columnMapping",), ("columnMapping",)),
        ],
        ids=str,
    )
    def test_a_protocol_that_delta_does_not_allow_is_not_valid(self, protocol):
        """Reader version 3 needs writer version 7, and each list needs its version."""
        assert not protocol.is_valid
