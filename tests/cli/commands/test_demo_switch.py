"""The parts of the demo of a switch-over, without Spark: its spec file, its name, and what it counts as lost."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from backfill_api.load import load_backfill
from demo.stage import Child, DemoError
from demo.switch import FLIP, SwitchDemo, is_whole
from demo.switch_writer import reason_of

LINE = {"written": 1500, "table": "/lake/orders"}


@pytest.fixture
def demo(tmp_path):
    demo = SwitchDemo(tmp_path, 300_000, Console(file=io.StringIO(), width=100))
    yield demo
    if demo.writer is not None:
        demo.writer.kill()


class TestItsFile:
    def test_the_file_is_a_valid_backfill(self, demo):
        """Users read and copy the file; a switch-over needs a job that follows."""
        spec = load_backfill(demo.document()).spec

        assert (spec.after, spec.switch.flip.type) == ("Follow", "Command")


class TestTheName:
    def test_the_script_shows_and_sets_the_folder(self, tmp_path):
        """It is called again after a kill, and folders may have blanks."""
        script = tmp_path / "flip.sh"
        script.write_text(FLIP)
        script.chmod(0o755)
        (tmp_path / "current").write_text("/lake/orders\n")

        def call(*arguments):
            return subprocess.run([script, *arguments], capture_output=True, text=True, check=True).stdout

        assert call("show") == "/lake/orders\n"
        call("set", "/lake/orders v2")
        call("set", "/lake/orders v2")
        assert call("show") == "/lake/orders v2\n"


class TestTheWriter:
    def test_a_line_is_sent_to_the_writer(self, demo, tmp_path):
        """It waits after its first error, so that the demo can show an undo."""
        code = "import json\nprint(json.dumps({'heard': input()}), flush=True)\ninput()"
        demo.writer = Child([sys.executable, "-c", code], tmp_path / "writer.log")
        demo.writer.tell("hold")

        assert demo.writer.wait_for(lambda line: line.get("heard") == "hold", 30)

    def test_a_writer_that_reaches_no_table_is_an_error(self, demo, tmp_path):
        """A demo that skips its promise has shown nothing."""
        demo.writer = Child(
            [sys.executable, "-c", f"print({str(LINE)!r}.replace(chr(39), chr(34)))"], tmp_path / "w.log"
        )

        with pytest.raises(DemoError, match="the writer did not reach /lake/orders_v2"):
            demo.wait_for_commit("/lake/orders_v2", 1000, "it tries again")

    @pytest.mark.parametrize(
        ("found", "distinct", "whole"), [(1500, 1500, True), (1499, 1499, False), (1501, 1500, False)]
    )
    def test_a_lost_or_doubled_order_is_a_failure(self, demo, found, distinct, whole):
        """The demo ends with an error, and says so."""
        line = LINE | {"found": found, "distinct": distinct}

        assert is_whole(line) is whole
        assert ("no order was lost" in demo.describe_end(line)) is whole

    def test_the_line_of_the_writer_names_its_table(self, demo):
        """A user sees where it writes, and how often it was refused."""
        assert demo.describe_writer(LINE) == "the writer: 1,500 orders, the last ones in orders"
        assert demo.describe_writer(LINE | {"refused": 2}).endswith("; refused 2 times")

    def test_an_error_is_shown_by_its_class(self):
        """The first line of an error from Java names only the call."""
        java = "An error occurred while calling o672.save.\n: x.DeltaException: [DELTA_UNSUPPORTED] no writer\n\tat y"

        assert reason_of(java) == "[DELTA_UNSUPPORTED] no writer"
        assert reason_of("no table\nat all") == "no table"
