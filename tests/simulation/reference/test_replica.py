"""A replica against the reference model: the same rows at the same version, for any batches, faults and crashes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from support.reference.replica import Add, Hide, LogEntry, ReferenceReplica, Remove
from support.reference.vocabulary import Fatal
from support.replica.filed_table import FiledTable, NamedFile
from support.simulation.models.replica import FILES, ReplicaModel
from support.simulation.scenario import scenario
from support.simulation.world import World

A, B, C = (1, "a"), (2, "b"), (3, "c")
CONTENTS = {"one": (A, B), "two": (C,)}


def reference(*log: Sequence[LogEntry], snapshot: Sequence[Add] = (Add("one", (A, B)),)) -> ReferenceReplica:
    return ReferenceReplica(snapshot, log, contents=CONTENTS)


class TestTheReference:
    """The tests drive the model by hand, so that its results are obvious."""

    def test_the_model_copies_history_before_the_log(self) -> None:
        """A version may hide rows of a file that history adds."""
        replica = reference([Hide("one", frozenset({0}))])
        replica.poll()
        assert replica.phase == "copying"
        replica.barrier()
        assert (replica.phase, replica.bag.total()) == ("shipping", 2)
        replica.ship_to(1)
        assert list(replica.bag) == [B]

    def test_the_model_applies_a_version_as_a_whole(self) -> None:
        """An update hides a row and adds another: no reader sees both rows, or neither."""
        replica = reference([Hide("one", frozenset({1})), Add("two", (C,))])
        replica.poll()
        replica.barrier()
        replica.poll()
        replica.crash()
        assert sorted(replica.bag) == [A, B]
        replica.ship_to(1)
        assert sorted(replica.bag) == [A, C]

    def test_the_model_shows_a_row_that_is_no_longer_hidden(self) -> None:
        """RESTORE brings an older vector back."""
        replica = reference([Hide("one", frozenset({0, 1}))], [Hide("one", frozenset({1}))])
        replica.poll()
        replica.barrier()
        replica.ship_to(2)
        assert list(replica.bag) == [A]

    def test_the_model_accepts_a_file_that_returns_under_its_name(self) -> None:
        """One version removed the file, and another added it again."""
        replica = reference([Remove("one")], [Add("one", (None, B))])
        replica.poll()
        replica.barrier()
        replica.ship_to(2)
        assert list(replica.bag) == [B]

    @pytest.mark.parametrize("entry", [Remove("two"), Hide("two", frozenset()), Add("one", (A, B))])
    def test_the_model_rejects_a_log_that_does_not_fit(self, entry: LogEntry) -> None:
        """A target that contradicts the log would stay wrong."""
        replica = reference([entry])
        replica.poll()
        replica.barrier()
        with pytest.raises(Fatal):
            replica.ship_to(1)


def _add(name: str, file: NamedFile) -> Add:
    return Add(name, tuple(None if at in file.hidden else row for at, row in enumerate(file.rows)))


def _log(table: FiledTable, version: int) -> list[LogEntry]:
    """Return the log of a version: the file changes since the version before."""
    before, after = table.files[version - 1], table.files[version]
    return [
        *(Remove(name) for name in before.keys() - after.keys()),
        *(_add(name, after[name]) for name in after.keys() - before.keys()),
        *(Hide(name, file.hidden) for name, file in after.items() if name in before and before[name] != file),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_every_commit_of_a_world_has_the_rows_of_the_reference(seed: int) -> None:
    """R-SNAP-36 and port.md 5.5: batches of several versions, crashes, faults, pauses; files copied, cut and copied
    again."""
    world = World(scenario("Replica", ReplicaModel.MODES, seed)).run()
    assert isinstance(world.model, ReplicaModel)
    table = world.model.table
    commits = [
        (commit, json.loads(commit.state)["replica"])
        for commit in world.target.commits
        if commit.kind == "seal" and commit.state
    ]
    first = commits[0][1]["version"]
    ours = ReferenceReplica(
        [_add(name, file) for name, file in table.files[first].items()],
        [_log(table, version) for version in range(first + 1, table.version + 1)],
        contents={name: file.rows for files in table.files for name, file in files.items()},
        passes=lambda row: table.passes(row[1]),
    )
    while ours.phase == "copying" and ours.poll():
        ours.barrier()

    for commit, stored in commits:
        if stored["phase"] != "Snapshot":
            ours.ship_to(stored["shipped"] - first)
            assert commit.rows == ours.bag
    assert world.given.mode == FILES
