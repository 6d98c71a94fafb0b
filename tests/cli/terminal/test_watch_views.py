"""The log that a key of `backfill status --watch` shows."""

from backfill_cli.terminal.watch_views import LOG_BYTES_MAX, log_texts


class TestTheLog:
    """The end of the file, whatever it contains."""

    def test_end_of_a_large_log_is_read(self, tmp_path):
        """Spark's logs may have gigabytes; a line that is cut is left out."""
        file = tmp_path / "job.log"
        file.write_text("".join(f"line {number:09}\n" for number in range(LOG_BYTES_MAX // 8)))

        shown = log_texts(file)

        assert shown[-1] == f"line {LOG_BYTES_MAX // 8 - 1:09}"
        assert {len(text) for text in shown} == {14}

    def test_control_characters_do_not_reach_the_terminal(self, tmp_path):
        """A value of a row may contain an escape sequence."""
        file = tmp_path / "job.log"
        file.write_bytes(b"\x1b[2Jgone\xff\n")

        assert all(character.isprintable() for character in log_texts(file)[0])

    def test_folder_in_its_place_is_named(self, tmp_path):
        """The watch goes on."""
        (text,) = log_texts(tmp_path)

        assert text == f"the log {tmp_path} cannot be read: Is a directory"
