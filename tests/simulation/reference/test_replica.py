"""A replica beside the reference model: whatever the batches, faults and crashes, the same rows at the same version."""

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
    """The model itself, by hand: what it says must be plain."""

    def test_has_history_before_the_log(self) -> None:
        """A version may hide rows of a file that history brings."""
        one = reference([Hide("one", frozenset({0}))])
        one.poll()
        assert one.phase == "copying"
        one.barrier()
        assert (one.phase, one.bag.total()) == ("shipping", 2)
        one.ship_to(1)
        assert list(one.bag) == [B]

    def test_takes_a_version_whole(self) -> None:
        """An update hides a row and adds another: no reader sees both, or neither."""
        one = reference([Hide("one", frozenset({1})), Add("two", (C,))])
        one.poll()
        one.barrier()
        one.poll()
        one.crash()
        assert sorted(one.bag) == [A, B]
        one.ship_to(1)
        assert sorted(one.bag) == [A, C]

    def test_shows_a_row_again_that_is_not_hidden_any_more(self) -> None:
        """RESTORE brings an older vector back."""
        one = reference([Hide("one", frozenset({0, 1}))], [Hide("one", frozenset({1}))])
        one.poll()
        one.barrier()
        one.ship_to(2)
        assert list(one.bag) == [A]

    def test_takes_a_file_back_under_its_name(self) -> None:
        """It went with one version and came with another."""
        one = reference([Remove("one")], [Add("one", (None, B))])
        one.poll()
        one.barrier()
        one.ship_to(2)
        assert list(one.bag) == [B]

    @pytest.mark.parametrize("entry", [Remove("two"), Hide("two", frozenset()), Add("one", (A, B))])
    def test_refuses_a_log_that_does_not_fit(self, entry: LogEntry) -> None:
        """A target that is not what the log says would be wrong from here on."""
        one = reference([entry])
        one.poll()
        one.barrier()
        with pytest.raises(Fatal):
            one.ship_to(1)


def _add(name: str, file: NamedFile) -> Add:
    return Add(name, tuple(None if at in file.hidden else row for at, row in enumerate(file.rows)))


def _log(table: FiledTable, version: int) -> list[LogEntry]:
    """Return the log of a version: what differs from the one before, file by file."""
    before, after = table.files[version - 1], table.files[version]
    return [
        *(Remove(name) for name in before.keys() - after.keys()),
        *(_add(name, after[name]) for name in after.keys() - before.keys()),
        *(Hide(name, file.hidden) for name, file in after.items() if name in before and before[name] != file),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_every_commit_of_a_world_has_the_rows_of_the_reference(seed: int) -> None:
    """R-SNAP-36 and port.md 5.5: batches of several versions, crashes, faults, pauses; files copied, cut and made anew."""
    world = World(scenario("Replica", ReplicaModel.MODES, seed)).run()
    assert isinstance(world.model, ReplicaModel)
    table = world.model.table
    commits = [
        (one, json.loads(one.state)["replica"]) for one in world.target.commits if one.kind == "seal" and one.state
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
