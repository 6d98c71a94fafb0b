"""Several versions of a log in one step: the result equals single steps, removed files are not copied, and new data is
not marked as rearranged."""

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
    """Return the vector that hides some rows; equal vectors hide the same rows."""
    return DeletionVector("i", ",".join(map(str, sorted(hidden))), None, 1, len(hidden)) if hidden else None


@dataclass
class Source:
    """A table that writes a log: each file has numbered rows, and some of them are hidden."""

    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Rows of every file that ever existed; each row has a unique number."""

    live: dict[str, frozenset[int]] = field(default_factory=dict)
    """Hidden positions of each existing file."""

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
        self.commit(*(FileRemoved(removed, False) for removed in paths), self.added(path, False))

    def restate(self, path):
        self.commit(self.added(path, False))

    def seen(self, path):
        """Return the rows of a file that a reader sees."""
        return [row for at, row in enumerate(self.rows[path]) if at not in self.live.get(path, ())]


@st.composite
def histories(draw):
    """Return a table with some versions, and the number of versions in the target."""
    source = Source()
    for step in range(draw(st.integers(1, 14))):
        existing = sorted(source.live)
        kind = draw(st.sampled_from(("insert", "delete", "delete", "optimize", "restate"))) if existing else "insert"
        if kind == "insert":
            source.insert(100 * step)
        elif kind == "optimize":
            source.optimize(draw(st.lists(st.sampled_from(existing), min_size=1, max_size=3, unique=True)))
        elif kind == "restate":
            source.restate(draw(st.sampled_from(existing)))
        else:
            path = draw(st.sampled_from(existing))
            left = [at for at in range(len(source.rows[path])) if at not in source.live[path]]
            source.delete(path, draw(st.sampled_from(left)))
    return source, draw(st.integers(0, len(source.log)))


def shipped(files, versions):
    """Return the target after some versions in one step, and that step."""
    step = files.step(fold(versions))
    added = [TargetFile(copy_name(copy.file.path), copy.file.vector, copy.file.path) for copy in step.copies]
    added += [replace(change.file, vector=change.source.vector) for change in step.vectors]
    return files.after([change.file.path for change in (*step.removals, *step.vectors)], added), step


def held(files):
    return {file.path: file.vector for group in files.groups.values() for file in group}


def states(source):
    """Return the files of each version with their vectors, from a plain replay."""
    versions, now = [{}], {}
    for version in source.log:
        for file in version.files:
            if isinstance(file, FileRemoved):
                now.pop(file.path, None)
        now |= {file.path: file.vector for file in version.files if isinstance(file, FileAdded)}
        versions.append(dict(now))
    return versions


class TestAStep:
    """A step brings a target from one version to another."""

    @given(histories())
    @settings(max_examples=300, deadline=None)
    def test_a_step_holds_the_files_of_the_last_version(self, history):
        """One step gives the same result as a step for each version."""
        source, at = history
        before, _ = shipped(TargetFiles(), source.log[:at])
        one_by_one = before
        for version in source.log[at:]:
            one_by_one, _ = shipped(one_by_one, [version])
        after, _ = shipped(before, source.log[at:])

        expected = {copy_name(path): vector for path, vector in states(source)[-1].items()}
        assert held(after) == held(one_by_one) == expected
        assert after.foreign_files == ()

    @given(histories())
    @settings(max_examples=300, deadline=None)
    def test_a_step_copies_only_new_files_that_stay(self, history):
        """The step requests no file whose bytes VACUUM may have deleted, and no file that the target has."""
        source, at = history
        before, _ = shipped(TargetFiles(), source.log[:at])
        _, step = shipped(before, source.log[at:])

        first, last = states(source)[at], states(source)[-1]
        assert {copy.file.path for copy in step.copies} == last.keys() - first.keys()
        assert {removal.file.action for removal in step.removals} == first.keys() - last.keys()
        assert step.missing == ()

    @given(histories())
    @settings(max_examples=500, deadline=None)
    def test_a_step_marks_no_new_row_as_rearranged(self, history):
        """Readers of the target's changes skip files without a data change: their added rows must equal their removed
        rows."""
        source, at = history
        base = Source(rows=source.rows, live={})
        before, _ = shipped(TargetFiles(), source.log[:at])
        hidden = {
            path: frozenset(map(int, file_vector.place.split(","))) if file_vector else frozenset()
            for path, file_vector in states(source)[at].items()
        }
        base.live = hidden
        _, step = shipped(before, source.log[at:])

        come = [row for copy in step.copies if not copy.data_change for row in source.seen(copy.file.path)]
        go = [row for removal in step.removals if not removal.data_change for row in base.seen(removal.file.action)]
        assert sorted(come) == sorted(go)
        assert all(change.data_change for change in step.vectors)

    def test_a_step_of_optimize_only_changes_no_data(self):
        """A reader of the target's changes must not see a rearrangement as new rows."""
        source = Source()
        source.insert(0)
        source.insert(100)
        before, _ = shipped(TargetFiles(), source.log)
        source.optimize(["f0.parquet", "f1.parquet"])
        _, step = shipped(before, source.log[2:])

        assert [change.data_change for change in (*step.copies, *step.removals)] == [False, False, False]

    def test_a_step_of_optimize_over_new_rows_changes_data(self):
        """The file of OPTIMIZE brings these rows."""
        source = Source()
        source.insert(0)
        before, _ = shipped(TargetFiles(), source.log)
        source.insert(100)
        source.optimize(["f0.parquet", "f1.parquet"])
        _, step = shipped(before, source.log[1:])

        assert [change.data_change for change in (*step.copies, *step.removals)] == [True, True]


class TestWhatIsMissing:
    """A step reports source files that have no copy in the target although they must."""

    def test_files_with_rows_that_lost_their_copy_are_reported(self):
        """Another writer removed the copy from the target, and it must not return unnoticed. A file without rows is
        never copied."""
        source = Source()
        for fresh in (0, 100, 200):
            source.insert(fresh)
        source.delete("f0.parquet", 1)
        source.optimize(["f1.parquet"])
        source.commit(FileRemoved("f2.parquet", True, 0))
        step = TargetFiles().step(fold(source.log[3:]))

        assert step.missing == ("f0.parquet",)
        assert step.removals == ()

    def test_a_file_that_was_added_and_removed_is_not_missing(self):
        """The file was never in the target."""
        source = Source()
        source.insert(0)
        source.delete("f0.parquet", 1)

        assert TargetFiles().step(fold(source.log)).missing == ()


class TestAVector:
    """A vector is the same vector in another folder."""

    def test_a_vector_is_identified_by_its_id_and_place(self):
        """The job copies vectors into its folder: only the prefix changes."""
        original = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 36, 2)

        assert original.hides_the_same(replace(original, place=f"backfill-1/a1/s2{original.place[-20:]}"))
        assert not original.hides_the_same(replace(original, offset=40))
        assert not original.hides_the_same(replace(original, place="ab^-aqEH.-t@S}K{vb[*kx"))
        inline = DeletionVector("i", "abcdefghijklmnopqrstuvwxyz", None, 36, 2)
        assert not inline.hides_the_same(replace(inline, place="bbcdefghijklmnopqrstuvwxyz"))


class TestAVectorThatGoes:
    """A file without its vector would return under a path and vector that the target's log has removed."""

    A = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 36, 2)
    LARGER = DeletionVector("i", "large", None, 36, 3)

    @pytest.mark.parametrize(
        ("before", "after", "copied_again"),
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
    def test_a_removed_vector_makes_the_file_copied_again(self, before, after, copied_again):
        """A staged vector has a new name in each step. No vector, or a vector inside the log, may have been in the log
        before."""
        existing = TargetFile(f"backfill-x/a1/s1/{copy_name('f')}", before, "{}")
        files = (FileAdded("f", 10, 4, True, after, "{}"), FileRemoved("f", True, 4))
        step = TargetFiles.of([existing]).step(fold([VersionActions(1, files)]))

        assert [copy.file.path for copy in step.copies] == ["f"] * copied_again
        assert [removal.file for removal in step.removals] == [existing] * copied_again
        assert len(step.vectors) == len(step.kept) == (not copied_again)


class TestTheBeginning:
    """The first group of many versions is as large as one commit may be."""

    def test_the_first_group_counts_only_files_that_stay(self):
        """A file that is removed again is not copied, and a new vector copies no file."""
        source = Source()
        source.insert(0)
        source.insert(100)
        source.delete("f0.parquet", 1)
        source.optimize(["f1.parquet"])
        source.insert(300)

        taken = [len(beginning(source.log[1:], bytes_max=count)) for count in (0, 10, 19, 20)]

        # Each file has 10 bytes, and one version is always taken: f1 is added, f0 changes, f2 replaces f1, and f3 is
        # added.
        assert taken == [1, 3, 3, 4]
        assert beginning((), bytes_max=1) == ()

    def test_a_version_with_other_columns_is_a_separate_group(self):
        """Its files need other copy modes than earlier files, and later files wait for another read of both tables."""
        versions = [VersionActions(number, (), "other" if number in (3, 4) else None) for number in range(1, 7)]

        taken = [[version.version for version in beginning(versions[after:], bytes_max=1)] for after in (0, 2, 3, 4)]

        assert taken == [[1, 2], [3], [4], [5, 6]]


class TestDecodedRows:
    """Decoded rows of a source file are a group, because they do not keep their positions."""

    def test_decoded_rows_are_copied_again_under_another_vector(self):
        """A vector of the source does not apply to decoded rows."""
        path = "a/part-1.parquet"
        existing = [
            TargetFile(f"backfill-x/a1/s1/{name_of(path, RowOrder.LOST, str(at))}", None, "{}") for at in range(2)
        ]
        files = TargetFiles.of(existing)
        added = FileAdded(path, 10, 4, True, vector({1}), "{}")
        step = files.step(fold([VersionActions(1, (added, FileRemoved(path, True)))]))

        assert [removal.file for removal in step.removals] == existing
        assert [copy.file for copy in step.copies] == [added]
        assert step.vectors == ()

        gone = files.step(fold([VersionActions(1, (FileRemoved(path, True),))]))
        assert [removal.file for removal in gone.removals] == existing
        assert files.after([file.path for file in existing], ()) == TargetFiles()


class TestNames:
    """The name of a target file contains the tag of its source file, in any folder."""

    @given(st.text(min_size=1), st.sampled_from(("", "backfill-1a/a1/s2/", "p=a%20b/")))
    def test_the_name_of_a_copy_identifies_any_source_path(self, path, folder):
        """A path in the log may be any string."""
        for order in RowOrder:
            assert source_of(folder + name_of(path, order, "c000-1")) == SourceTag(tag_of(path), order)
        decoded = f"{folder}{folder_of(path, '7')}/p=1/part-00000-1a.c000.snappy.parquet"
        assert source_of(decoded) == SourceTag(tag_of(path), RowOrder.LOST)

    def test_files_of_other_writers_have_no_source(self):
        """Examples are Spark's own names, and a folder with the name of a copy."""
        assert source_of("part-00000-0a1b.c000.snappy.parquet") is None
        assert source_of(f"{copy_name('x')}/part-00000.parquet") is None

    def test_a_foreign_file_is_listed_separately(self):
        """A file of another writer has no source file; the step reports it until it is removed."""
        files = TargetFiles.of([TargetFile("part-1.parquet", None, "{}")])

        assert files.foreign_files == ("part-1.parquet",)
        assert files.after(["part-1.parquet"], ()).foreign_files == ()


class TestRowsThatAVersionChanges:
    """A file is rewritten for one row: its other rows did not change (faults U19 to U29)."""

    def file(self, path, rows, hidden=()):
        return FileAdded(path, 10, rows, True, vector(hidden), "{}")

    @pytest.mark.parametrize(
        ("copied", "changed"),
        [(997, 6), (0, 2000), (1_000_000, 0)],
        ids=["counted by its writer", "not counted", "a count that cannot be"],
    )
    def test_rows_copied_by_a_rewrite_are_not_changed(self, copied, changed):
        """An update of three rows removes three rows and adds three."""
        files = (FileRemoved("a", True, 1000), self.file("b", 1000))

        assert VersionActions(1, files, rows_copied=copied).rows_changed == changed

    def test_added_or_removed_files_change_all_their_rows(self):
        """Another vector hides a few more rows; OPTIMIZE moves rows without a change."""
        files = (
            self.file("new", 10),
            FileRemoved("old", True, 7),
            FileRemoved("held", True, 5),
            self.file("held", 5, hidden={1, 2}),
            FileRemoved("small", False, 100),
            replace(self.file("large", 100), data_change=False),
        )

        assert VersionActions(1, files).rows_changed == 10 + 7 + 2
