"""Flip by an executable: it is asked before it changes anything, and its failure ends the switch-over by name."""

import stat

import pytest
from support.endings import assert_ending

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import FlipFailedError
from backfill_spark.flips import discover

SCRIPT = """#!/bin/sh
case "$1" in
show) cat {name} ;;
set) echo "$2" > {name}; echo "$2" >> {name}.log ;;
esac
"""


def executable(path, text):
    """Write a script that can be run; return its path."""
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def opened(*command):
    """Open a flip by a command; it needs no session."""
    return discover()["Command"].open(None, FlipSpec(type="Command", command=command))


class TestACommand:
    """The name is a file here, and each change of it is logged."""

    def test_changes_the_name_once_and_back(self, tmp_path):
        """A switch-over that was killed calls the flip again."""
        name = tmp_path / "current"
        name.write_text("/lake/orders\n")
        flip = opened(executable(tmp_path / "flip.sh", SCRIPT.format(name=name)))

        before = flip.flip("/lake/orders_v2")
        flip.flip("/lake/orders_v2")
        assert flip.points_to() == "/lake/orders_v2"
        flip.undo(before)
        flip.undo(before)

        assert flip.points_to() == "/lake/orders"
        assert (tmp_path / "current.log").read_text() == "/lake/orders_v2\n/lake/orders\n"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("#!/bin/sh\necho no catalog >&2; exit 3\n", "` ended with 3: no catalog."),
            ("not a program", "` cannot be run: "),
        ],
    )
    def test_that_fails_is_named_with_its_output(self, tmp_path, text, message):
        """The user finds the cause in the catalog's own message."""
        flip = opened(executable(tmp_path / "flip.sh", text))

        with pytest.raises(FlipFailedError) as failed:
            flip.points_to()

        assert_ending(failed.value, "FlipFailed")
        assert message in failed.value.message
        assert "flip.sh show" in failed.value.message


class TestNoFlip:
    def test_describes_the_change_that_users_make_and_changes_nothing(self):
        """A dry run tells users what remains for them."""
        flip = discover()["None"].open(None, FlipSpec())

        assert flip.points_to() is None
        assert flip.describe("/a", "/b") == ["change readers and writers yourself: use /b instead of /a"]
        flip.undo(flip.flip("/b"))
