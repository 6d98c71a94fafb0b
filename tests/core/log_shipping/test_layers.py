"""Tests of mappings whose changed copies share what did not change."""

from hypothesis import example, given
from hypothesis import strategies as st

from backfill_core.log_shipping.layers import GROWTH, Layers
from backfill_core.log_shipping.target_files import TargetFile, TargetFiles
from backfill_core.positions.source_names import RowOrder, name_of

KEYS = st.sampled_from("abcdefgh")
CHANGES = st.lists(st.dictionaries(KEYS, st.none() | st.integers()), max_size=12)


class CountedEntries(dict):
    """Entries that count how often all of them are read."""

    reads = 0

    def keys(self):
        """Count a copy by `{**entries}`, and return the keys."""
        self.reads += 1
        return super().keys()

    def items(self):
        """Count a loop, and return the items."""
        self.reads += 1
        return super().items()

    def __iter__(self):
        """Count a loop, and return the keys."""
        self.reads += 1
        return super().__iter__()


class TestLayers:
    """A reader cannot distinguish layers of changes from one mapping."""

    @given(st.dictionaries(KEYS, st.integers()), CHANGES)
    @example(dict.fromkeys("abcdefgh", 0), [{"a": None}])
    def test_equal_a_dictionary_after_any_changes(self, entries, changes):
        """After each change, with the same number of entries, and each earlier mapping stays as it was."""
        layers, expected, earlier = Layers(dict(entries)), dict(entries), []
        for change in changes:
            earlier.append((layers, dict(expected)))
            layers = layers.changed(change)
            expected = {key: value for key, value in {**expected, **change}.items() if value is not None}
            assert (dict(layers), len(layers), sorted(layers)) == (expected, len(expected), sorted(expected))
        assert all(dict(before) == then for before, then in earlier)

    def test_small_changes_never_read_the_many_entries(self):
        """The work of a change is that of its entries: only many changes together merge the layers."""
        entries = CountedEntries({str(at): at for at in range(1000)})
        layers = Layers(entries)

        for at in range(1000 // GROWTH - 1):
            layers = layers.changed({str(at): None})

        assert (len(layers), entries.reads) == (1000 - 1000 // GROWTH + 1, 0)

    def test_many_changes_leave_few_layers(self):
        """A look-up asks each layer, so their number grows with the logarithm of the entries."""
        layers = Layers({})
        for at in range(5000):
            layers = layers.changed({str(at): at})

        assert layers.depth < 14


class TestFilesOfATarget:
    """Following a commit takes as much work for a target of many files as for one of few."""

    def test_a_commit_of_one_file_reads_none_of_the_others(self):
        """The files by source file, and by their own path, are shared with those before the commit."""
        many = TargetFiles.of(TargetFile(f"s1/{name_of(str(at), RowOrder.KEPT, '0')}", None, "{}") for at in range(100))
        before = [CountedEntries(files) for files in (many.groups, many.copies)]
        files = TargetFiles(Layers(before[0]), copies=Layers(before[1]))
        (gone,) = files.of_source_file("7")
        added = TargetFile(f"s2/{name_of('7', RowOrder.KEPT, '0')}", None, "{}")

        after = files.after([gone.path], [added])

        assert [entries.reads for entries in before] == [0, 0]
        assert (after.of_source_file("7"), files.of_source_file("7")) == ((added,), (gone,))
        assert len(after.copies) == len(after.groups) == 100

    def test_another_copy_of_a_source_file_joins_the_first(self):
        """A step then replaces both by one."""
        first, second = (TargetFile(f"s1/{name_of('7', RowOrder.KEPT, suffix)}", None, "{}") for suffix in "01")

        after = TargetFiles.of([first]).after((), [second])

        assert after.of_source_file("7") == (first, second)
