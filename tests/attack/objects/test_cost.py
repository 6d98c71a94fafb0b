"""Each reader takes linear time: one megabyte of any content costs at most 100 ms of CPU."""

import time
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import attack
from support.hostile.readers import OBJECTS, POD, PODS, RICH, TEXTS, TOPIC, backfill, changed, paths, tried

from backfill_api.load import SpecError, load_backfill

CPU_S_MAX = 0.1
SIZE = 1_000_000
SIZES = (1_000, 10_000, 100_000, SIZE)
"""The sizes grow, so a reader of quadratic time fails before it has used minutes."""

YAML_CPU_S_MAX = 3.0
"""CPU time of the parser for a megabyte; only the command line parses YAML."""

EXAMPLES = 6 if attack.SECONDS <= 0 else 200
HOSTILE = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=attack.SECONDS <= 0,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
PARTS = (
    "a:", "/", "@", "http:", "s3a://a:b", "[", "{", "]", "}", '"', "\\", '\\"', " ", "\n", "\t", "=", ",", ".", "-", "_", "9", "0x", "e9",
    "1 ", "1_", "00:", "-0", "a", "A", "aA", "\u00e9", "\u2028", "\x00", "${", "%2e", "..", "`", "'", "(", "--", "*", "&a=", "/a=1/", "x=",
    "== SQL ", "[A", "SQLSTATE: ", "create ", "Cannot create ", "Invalid value ", "path=", "Concurrent", "Service: Sts", "day s", '{"a":', "[1,",
)  # fmt: skip
UNITS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join)
ENDS = st.sampled_from(("", "x", "@", "!", '"', "]", "\n", "http:", '"a'))
TEXT = st.builds(lambda before, unit, after: (before, unit, after), ENDS, UNITS, ENDS)

RECORDED = (
    ("", "a:", "x"),
    ("http:", "a:", "!"),
    ('"', '\\"', ""),
    ("", " ", "x"),
    ("path=/", "path=/", ""),
    ("1", ":00", ""),
)
"""Strings that used to take minutes or more."""

VALUES = {
    "text": lambda size: "a:" * (size // 2),
    "path": lambda size: "http:" + "a:" * min(1000, size),
    "texts": lambda size: ["a"] * (size // 4),
    "numbers": lambda size: list(range(size // 7)),
    "names": lambda size: {f"a{number}": number for number in range(size // 10)},
    "entries": lambda size: [{"name": f"a{number}"} for number in range(size // 17)],
}


@cache
def value_of(kind, size):
    """Return a value of about this many characters; the same one each time."""
    return VALUES[kind](size)


def cpu_s(read, value):
    """Return the CPU seconds of a reader: the best of three, because a busy machine adds to each."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        tried(read, value)
        best = min(best, time.process_time() - began)
        if best <= CPU_S_MAX:
            break
    return best


class TestAText:
    @pytest.mark.parametrize("reader", TEXTS)
    @pytest.mark.parametrize("parts", RECORDED, ids=repr)
    def test_a_string_that_used_to_be_slow_is_read_in_time(self, reader, parts):
        """One of these strings of 2 kB, in a path, stopped the operator for every namespace (fault S1)."""
        self.check(reader, parts)

    @pytest.mark.parametrize("reader", TEXTS)
    @HOSTILE
    @given(parts=TEXT)
    def test_a_repeated_string_is_read_in_time(self, reader, parts):
        """The repeated unit is random."""
        self.check(reader, parts)

    @staticmethod
    def check(reader, parts):
        before, unit, after = parts
        for size in SIZES:
            text = f"{before}{unit * (size // len(unit))}{after}"
            assert cpu_s(TEXTS[reader], text) <= CPU_S_MAX, f"{reader}: {size:,} characters of {unit!r}"


class TestAnObject:
    @pytest.mark.parametrize("reader", ["observed", "cached", "launched"])
    def test_a_sound_object_is_read_to_its_end(self, reader):
        """A reader that rejects the object at once would prove nothing below."""
        OBJECTS[reader](backfill())

    @pytest.mark.parametrize("kind", VALUES)
    @pytest.mark.parametrize("reader", OBJECTS)
    def test_a_backfill_is_read_in_time(self, reader, kind):
        """Each field in turn contains the megabyte."""
        self.check(OBJECTS[reader], backfill(), kind, {"spec", "status"})

    @pytest.mark.parametrize("kind", VALUES)
    def test_a_backfill_of_a_topic_is_read_in_time(self, kind):
        """A topic has separate checks."""
        self.check(OBJECTS["launched"], backfill({**RICH, "source": TOPIC}), kind, {"spec"}, below=("spec", "source"))

    @pytest.mark.parametrize("kind", VALUES)
    @pytest.mark.parametrize("reader", PODS)
    def test_a_pod_is_read_in_time(self, reader, kind):
        """Kubelets copy messages of containers into its status."""
        self.check(PODS[reader], POD, kind, {"status"})

    @staticmethod
    def check(read, document, kind, parts, below=()):
        for path in paths(document):
            if path[0] in parts and path[: len(below)] == below:
                for size in SIZES[1::2]:
                    spent_s = cpu_s(read, changed(document, path, value_of(kind, size)))
                    assert spent_s <= CPU_S_MAX, f"{path}: {size:,} characters of {kind}: {spent_s:.2f} s"


class TestYaml:
    HEAD = "apiVersion: backfill.dev/v1alpha1\nkind: Backfill\nmetadata: {name: a}\nspec:\n  suspend: "

    @HOSTILE
    @given(parts=TEXT)
    def test_yaml_takes_the_time_of_its_parser(self, parts):
        """A foreign file must not hang `backfill plan`."""
        before, unit, after = parts
        self.check(f"{before}{unit * ((SIZE - 1_000) // len(unit))}{after}")

    @pytest.mark.parametrize(
        "number", ["0x" + "f" * 900_000, "1" + ":00" * 300_000, "1" + ":00" * 300_000 + ".0", "9" * 900_000, "!!int '" + "1:" * 9_000 + "1'"],
        ids=["hexadecimal", "base 60", "fraction of base 60", "decimal", "tagged"],
    )  # fmt: skip
    def test_a_long_number_is_refused(self, number):
        """Python takes minutes to parse some of them, and cannot print the others."""
        with pytest.raises(SpecError, match=r"is a number of [0-9,]+ characters"):
            load_backfill(f"{self.HEAD}{number}")

    def check(self, value):
        began = time.process_time()
        with pytest.raises(SpecError):
            load_backfill(f"{self.HEAD}{value}")
        assert time.process_time() - began <= YAML_CPU_S_MAX
