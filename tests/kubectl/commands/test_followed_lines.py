"""The lines of a followed log, which a server repeats after a broken connection."""

from backfill_kubectl.commands.logs import OneLog


class TestALogOverSeveralConnections:
    """Each line is printed once."""

    def test_lines_of_one_write_are_printed_and_not_repeated(self, capsys):
        """CRI-O gives all lines of one write the same time."""
        log, traceback = (
            OneLog(),
            [b"2026-01-01T00:00:01.000000001Z Traceback", b"2026-01-01T00:00:01.000000001Z ValueError"],
        )

        log.print(iter(traceback))
        log.print(
            iter(
                [
                    b"2026-01-01T00:00:01.000000000Z first",
                    *traceback,
                    b"2026-01-01T00:00:01.000000001Z third",
                    b"2026-01-01T00:00:02.000000000Z fourth",
                ]
            )
        )

        assert capsys.readouterr().out.splitlines() == ["Traceback", "ValueError", "third", "fourth"]

    def test_a_message_of_the_server_has_no_time_and_ends_nothing(self, capsys):
        """A kubelet writes its own errors into the log."""
        log = OneLog()

        log.print(iter([b"2026-01-01T00:00:01.000000000Z first"]))
        log.print(
            iter([b"failed to create fsnotify watcher: too many open files", b"2026-01-01T00:00:01.000000000Z first"])
        )
        log.print(iter([b"2026-01-01T00:00:01.000000000Z first", b"2026-01-01T00:00:02.000000000Z second"]))

        assert log.time == "2026-01-01T00:00:02.000000000Z"
        assert capsys.readouterr().out.splitlines() == [
            "first", "failed to create fsnotify watcher: too many open files", "second",
        ]  # fmt: skip

    def test_a_clock_that_goes_back_hides_no_line(self, capsys):
        """Only the repeated lines of a new connection are left out."""
        log = OneLog()

        log.print(iter([b"2026-01-01T00:00:05.000000000Z first", b"2026-01-01T00:00:01.000000000Z second"]))

        assert capsys.readouterr().out.splitlines() == ["first", "second"]
