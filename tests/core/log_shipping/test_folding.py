"""Several versions of a log in one step: the same files as one by one, no copy of what is gone, and no data passed off as rearranged."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_core.log_shipping.actions import DeletionVector, FileAdded, FileRemoved, VersionActions
from backfill_core.log_shipping.folding import beginning, fold
from backfill_core.log_shipping.target_files import TargetFile, TargetFiles
from backfill_core.positions.source_names import RowOrder, SourceTag, folder_of, name_of, source_of, tag_of

ROWS_A_FILE = 4


def copy_name(path):
    """Return the name of a whole copy."""
    return name_of(path, RowOrder.KEPT, "0")


def vector(hidden):
    """Return the vector that hides some rows; equal ones hide the same."""
    return DeletionVector("i", ",".join(map(str, sorted(hidden))), None, 1, len(hidden)) if hidden else None


@dataclass
class Source:
    """A table that writes a log: each file has rows, by number, and some of them are hidden."""

    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of every file that ever was, each row told by a number of its own."""

    live: dict[str, frozenset[int]] = field(default_factory=dict)
    """The hidden places of each file that is there."""

    log: list[VersionActions] = field(default_factory=list)

    def made(self, rows):
        path = f"f{len(self.rows)}.parquet"
        self.rows[path] = tuple(rows)
        return path

    def added(self, path, data_change):
        return FileAdded(path, 10, len(self.rows[path]), data_change, vector(self.live[path]), "{}")

    def commit(self, *files):
        self.log.append(VersionActions(len(self.log), files))

    def insert(self, fresh):
        path = self.made(range(fresh, fresh + ROWS_A_FILE))
        self.live[path] = frozenset()
        self.commit(self.added(path, True))

    def delete(self, path, place):
        hidden = self.live[path] | {place}
        if len(hidden) == len(self.rows[path]):
            del self.live[path]
            self.commit(FileRemoved(path, True, 1))
        else:
            self.live[path] = hidden
            self.commit(self.added(path, True), FileRemoved(path, True, ROWS_A_FILE))

    def optimize(self, paths):
        kept = [row for path in paths for at, row in enumerate(self.rows[path]) if at not in self.live[path]]
        for path in paths:
            del self.live[path]
        path = self.made(kept)
        self.live[path] = frozenset()
        self.commit(*(FileRemoved(one, False) for one in paths), self.added(path, False))

    def restate(self, path):
        self.commit(self.added(path, False))

    def seen(self, path):
        """Return the rows of a file that a reader sees."""
        return [row for at, row in enumerate(self.rows[path]) if at not in self.live.get(path, ())]


@st.composite
def histories(draw):
    """Return a table with some versions, and how many of them the target has."""
    source = Source()
    for step in range(draw(st.integers(1, 14))):
        there = sorted(source.live)
        kind = draw(st.sampled_from(("insert", "delete", "delete", "optimize", "restate"))) if there else "insert"
        if kind == "insert":
            source.insert(100 * step)
        elif kind == "optimize":
            source.optimize(draw(st.lists(st.sampled_from(there), min_size=1, max_size=3, unique=True)))
        elif kind == "restate":
            source.restate(draw(st.sampled_from(there)))
        else:
            path = draw(st.sampled_from(there))
            left = [at for at in range(len(source.rows[path])) if at not in source.live[path]]
            source.delete(path, draw(st.sampled_from(left)))
    return source, draw(st.integers(0, len(source.log)))


def shipped(files, versions):
    """Return a target after some versions in one step, and that step."""
    step = files.step(fold(versions))
    added = [TargetFile(copy_name(one.file.path), one.file.vector, one.file.path) for one in step.copies]
    added += [replace(one.file, vector=one.source.vector) for one in step.vectors]
    return files.after([one.file.path for one in (*step.removals, *step.vectors)], added), step


def held(files):
    return {one.path: one.vector for group in files.groups.values() for one in group}


def states(source):
    """Return the files of each version with their vectors, told by a plain replay."""
    found, now = [{}], {}
    for version in source.log:
        for one in version.files:
            if isinstance(one, FileRemoved):
                now.pop(one.path, None)
        now |= {one.path: one.vector for one in version.files if isinstance(one, FileAdded)}
        found.append(dict(now))
    return found


class TestAStep:
    """Brings a target from one version to another."""

    @given(histories())
    @settings(max_examples=300, deadline=None)
    def test_holds_the_files_of_the_last_version(self, history):
        """In one step or in as many as there are versions."""
        source, at = history
        before, _ = shipped(TargetFiles(), source.log[:at])
        one_by_one = before
        for version in source.log[at:]:
            one_by_one, _ = shipped(one_by_one, [version])
        after, _ = shipped(before, source.log[at:])

        wanted = {copy_name(path): vector for path, vector in states(source)[-1].items()}
        assert held(after) == held(one_by_one) == wanted
        assert after.strangers == ()

    @given(histories())
    @settings(max_examples=300, deadline=None)
    def test_copies_what_stays_and_is_new_and_nothing_else(self, history):
        """A file whose bytes VACUUM may have taken since is not asked for, nor one that is there."""
        source, at = history
        before, _ = shipped(TargetFiles(), source.log[:at])
        _, step = shipped(before, source.log[at:])

        first, last = states(source)[at], states(source)[-1]
        assert {one.file.path for one in step.copies} == last.keys() - first.keys()
        assert {one.file.action for one in step.removals} == first.keys() - last.keys()
        assert step.missing == ()

    @given(histories())
    @settings(max_examples=500, deadline=None)
    def test_says_of_no_new_row_that_it_was_there_before(self, history):
        """Who reads the target's changes passes over files without a change of data: rows that come must equal rows that go."""
        source, at = history
        base = Source(rows=source.rows, live={})
        before, _ = shipped(TargetFiles(), source.log[:at])
        hidden = {
            path: frozenset(map(int, one.place.split(","))) if one else frozenset()
            for path, one in states(source)[at].items()
        }
        base.live = hidden
        _, step = shipped(before, source.log[at:])

        come = [row for one in step.copies if not one.data_change for row in source.seen(one.file.path)]
        go = [row for one in step.removals if not one.data_change for row in base.seen(one.file.action)]
        assert sorted(come) == sorted(go)
        assert all(one.data_change for one in step.vectors)

    def test_of_optimize_alone_changes_no_data(self):
        """A reader of the target's changes must not see a rearrangement as new rows."""
        source = Source()
        source.insert(0)
        source.insert(100)
        before, _ = shipped(TargetFiles(), source.log)
        source.optimize(["f0.parquet", "f1.parquet"])
        _, step = shipped(before, source.log[2:])

        assert [one.data_change for one in (*step.copies, *step.removals)] == [False, False, False]

    def test_of_optimize_over_new_rows_changes_data(self):
        """The file of OPTIMIZE is what brings them."""
        source = Source()
        source.insert(0)
        before, _ = shipped(TargetFiles(), source.log)
        source.insert(100)
        source.optimize(["f0.parquet", "f1.parquet"])
        _, step = shipped(before, source.log[1:])

        assert [one.data_change for one in (*step.copies, *step.removals)] == [True, True]


class TestWhatIsMissing:
    """A file of the source that the target must have been made of, and was not, is told."""

    def test_is_told_of_files_with_rows_that_were_there_before(self):
        """Another writer took it out of the target, and it must not come back unnoticed; a file without rows is not copied at all."""
        source = Source()
        for fresh in (0, 100, 200):
            source.insert(fresh)
        source.delete("f0.parquet", 1)
        source.optimize(["f1.parquet"])
        source.commit(FileRemoved("f2.parquet", True, 0))
        step = TargetFiles().step(fold(source.log[3:]))

        assert step.missing == ("f0.parquet",)
        assert step.removals == ()

    def test_is_none_of_what_came_and_went(self):
        """It never was in the target."""
        source = Source()
        source.insert(0)
        source.delete("f0.parquet", 1)

        assert TargetFiles().step(fold(source.log)).missing == ()


class TestAVector:
    """Is the same in another folder."""

    def test_is_told_by_its_identifier_and_place(self):
        """Vectors are copied into a folder of the job: the prefix changes, and nothing else."""
        one = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 36, 2)

        assert one.hides_the_same(replace(one, place=f"backfill-1/a1/s2{one.place[-20:]}"))
        assert not one.hides_the_same(replace(one, offset=40))
        assert not one.hides_the_same(replace(one, place="ab^-aqEH.-t@S}K{vb[*kx"))
        inline = DeletionVector("i", "abcdefghijklmnopqrstuvwxyz", None, 36, 2)
        assert not inline.hides_the_same(replace(inline, place="bbcdefghijklmnopqrstuvwxyz"))


class TestAVectorThatGoes:
    """Would bring a file back under a path and a vector that the target's log removed."""

    A = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 36, 2)
    LARGER = DeletionVector("i", "large", None, 36, 3)

    @pytest.mark.parametrize(
        ("before", "after", "anew"),
        [
            (None, A, False),
            (A, None, True),
            (LARGER, None, True),
            (A, replace(A, place="ab^-aqEH.-t@S}K{vb[*kx", rows=1), False),
            (A, LARGER, False),
            (LARGER, DeletionVector("i", "small", None, 36, 1), True),
        ],
        ids=["comes", "goes", "goes from the log", "is another file", "grows in the log", "shrinks in the log"],
    )
    def test_makes_the_file_anew(self, before, after, anew):
        """A vector that is staged has a new name in each step; none, and one in the log itself, may be there again."""
        there = TargetFile(f"backfill-x/a1/s1/{copy_name('f')}", before, "{}")
        files = (FileAdded("f", 10, 4, True, after, "{}"), FileRemoved("f", True, 4))
        step = TargetFiles.of([there]).step(fold([VersionActions(1, files)]))

        assert [one.file.path for one in step.copies] == ["f"] * anew
        assert [one.file for one in step.removals] == [there] * anew
        assert len(step.vectors) == len(step.kept) == (not anew)


class TestTheBeginning:
    """Of many versions is as much as may be copied for one commit."""

    def test_counts_what_stays_new(self):
        """A file that goes again is not copied, and another vector copies no file."""
        source = Source()
        source.insert(0)
        source.insert(100)
        source.delete("f0.parquet", 1)
        source.optimize(["f1.parquet"])
        source.insert(300)

        taken = [len(beginning(source.log[1:], bytes_max=count)) for count in (0, 10, 19, 20)]

        # Each file has 10 bytes, and one version is always taken: f1 comes, f0 changes, f2 replaces f1, and f3 comes.
        assert taken == [1, 3, 3, 4]
        assert beginning((), bytes_max=1) == ()

    def test_leaves_a_version_with_other_columns_alone(self):
        """Its files go other ways than those before it, and those after it wait for another look at both tables."""
        versions = [VersionActions(number, (), "other" if number in (3, 4) else None) for number in range(1, 7)]

        taken = [[one.version for one in beginning(versions[after:], bytes_max=1)] for after in (0, 2, 3, 4)]

        assert taken == [[1, 2], [3], [4], [5, 6]]


class TestDecodedRows:
    """Are a group: they tell no place."""

    def test_go_together_and_are_made_anew_under_another_vector(self):
        """A vector of the source means nothing to them."""
        path = "a/part-1.parquet"
        there = [TargetFile(f"backfill-x/a1/s1/{name_of(path, RowOrder.LOST, str(at))}", None, "{}") for at in range(2)]
        files = TargetFiles.of(there)
        added = FileAdded(path, 10, 4, True, vector({1}), "{}")
        step = files.step(fold([VersionActions(1, (added, FileRemoved(path, True)))]))

        assert [one.file for one in step.removals] == there
        assert [one.file for one in step.copies] == [added]
        assert step.vectors == ()

        gone = files.step(fold([VersionActions(1, (FileRemoved(path, True),))]))
        assert [one.file for one in gone.removals] == there
        assert files.after([one.path for one in there], ()) == TargetFiles()


class TestNames:
    """Tell of which file of the source a target's file is made, wherever it lies."""

    @given(st.text(min_size=1), st.sampled_from(("", "backfill-1a/a1/s2/", "p=a%20b/")))
    def test_any_path_has_one(self, path, folder):
        """A path of the log may be any text."""
        for order in RowOrder:
            assert source_of(folder + name_of(path, order, "c000-1")) == SourceTag(tag_of(path), order)
        decoded = f"{folder}{folder_of(path, '7')}/p=1/part-00000-1a.c000.snappy.parquet"
        assert source_of(decoded) == SourceTag(tag_of(path), RowOrder.LOST)

    def test_others_have_none(self):
        """Spark's own names, and a folder of such a name."""
        assert source_of("part-00000-0a1b.c000.snappy.parquet") is None
        assert source_of(f"{copy_name('x')}/part-00000.parquet") is None

    def test_a_stranger_is_kept_apart(self):
        """A file of another writer is of no source file; it is told, and goes when it is removed."""
        files = TargetFiles.of([TargetFile("part-1.parquet", None, "{}")])

        assert files.strangers == ("part-1.parquet",)
        assert files.after(["part-1.parquet"], ()).strangers == ()


class TestRowsThatAVersionChanges:
    """A file is rewritten for one row of it: the others did not change (faults U19 to U29)."""

    def file(self, path, rows, hidden=()):
        return FileAdded(path, 10, rows, True, vector(hidden), "{}")

    @pytest.mark.parametrize(
        ("copied", "changed"),
        [(997, 6), (0, 2000), (1_000_000, 0)],
        ids=["counted by its writer", "not counted", "a count that cannot be"],
    )
    def test_of_a_rewritten_file_are_those_that_were_not_copied(self, copied, changed):
        """An update of three rows takes three out and puts three in."""
        files = (FileRemoved("a", True, 1000), self.file("b", 1000))

        assert VersionActions(1, files, rows_copied=copied).rows_changed == changed

    def test_of_files_that_came_or_went_are_all(self):
        """Another vector hides some more; what OPTIMIZE moves does not change."""
        files = (
            self.file("new", 10),
            FileRemoved("old", True, 7),
            FileRemoved("held", True, 5),
            self.file("held", 5, hidden={1, 2}),
            FileRemoved("small", False, 100),
            replace(self.file("large", 100), data_change=False),
        )

        assert VersionActions(1, files).rows_changed == 10 + 7 + 2
