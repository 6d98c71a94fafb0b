"""Answers to commands: the state that holds now, the proof, and the command that undoes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from backfill_api.amounts import counted, show_seconds
from backfill_api.spec.override import WIDTH_FIELDS, given_width
from backfill_api.status.progress import Progress, ProgressSummary
from backfill_api.wire import Command, CommandType, PauseCommand, ThrottleCommand
from backfill_console.formatting import format_limit, format_rate, format_width

WIDTH_OPTIONS = {"split_target_seconds": "--split-seconds", "chunk_rows": "--chunk-rows", "executors": "--executors"}
"""Options of the command `rescale`, by the names of the values in Python; `max_in_flight` is its argument."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Pause, limit and width that hold for a job."""

    paused: str | None = None
    """`History` or `All`; `None` if it is not paused."""

    rows_per_second: int | None = None
    bytes_per_second: int | None = None
    until: str | None = None
    """End of the limit, RFC 3339; `None` if it has none."""

    for_seconds: int | None = None
    """Length of the limit from the command on; `None` if it has none."""

    max_in_flight: int | None = None
    """Most pieces of the snapshot that run at the same time; a value of the width is `None` if it is unknown or fixed."""

    split_target_seconds: int | None = None
    chunk_rows: int | None = None
    executors: int | None = None

    automatic: str = ""
    """The limit in force while the automatic throttle sets one; empty without it."""

    @property
    def limit(self) -> str:
        """Return the limit for users; empty if there is none."""
        rate = self.automatic or format_rate(self.rows_per_second, self.bytes_per_second)
        end = "" if self.for_seconds is None else f" for {show_seconds(self.for_seconds)}"
        end = end if self.until is None else f" until {self.until}"
        return rate and rate + end


def controls_of_driver(progress: Progress) -> Controls:
    """Return the pause, the limit and the width that a driver reports."""
    return Controls(
        progress.paused,
        progress.throttle_rows_per_second,
        progress.throttle_bytes_per_second,
        progress.throttle_until,
        **given_width(progress),
        automatic="" if progress.auto_rows_per_second is None else format_limit(progress),
    )


def controls_after(command: Command, reported: Controls) -> Controls:
    """Return the controls once a driver has confirmed a command; its report may be older than its acknowledgement."""
    match command.type:
        case "Pause":
            return replace(reported, paused=(command.pause or PauseCommand()).scope)
        case "Resume":
            return replace(reported, paused=None)
        case "Throttle":
            limit = command.throttle or ThrottleCommand()
            kept: dict[str, Any] = given_width(reported)
            return Controls(
                reported.paused, limit.rows_per_second, limit.bytes_per_second, limit.until, limit.for_seconds,
                **kept,
            )  # fmt: skip
        case "Rescale" if command.rescale is not None:
            changed: dict[str, Any] = command.rescale.given
            return replace(reported, **changed)
        case _:
            return reported


def changed_controls(command: Command, controls: Controls) -> Controls:
    """Return controls without the values of the width that a command does not change."""
    changed = {} if command.rescale is None else command.rescale.given
    kept: dict[str, Any] = {name: None for name in WIDTH_FIELDS if name not in changed}
    return replace(controls, **kept)


def describe_controls(command: CommandType, controls: Controls, progress: ProgressSummary | None) -> str:
    """Describe the state that holds once a command is in force.

    Args:
        command: Type of the command.
        controls: Pause and limit that hold then, and the changed values of the width.
        progress: Progress at that time; `None` if unknown.
    """
    at = describe_place(progress)
    limit = controls.limit
    match command:
        case "Throttle":
            unread = (
                ", so the snapshot is not read" if 0 in (controls.rows_per_second, controls.bytes_per_second) else ""
            )
            paused = "; it is paused" if controls.paused is not None else ""
            return f"{f'limited to {limit}' if limit else 'running without a limit'}{unread}{at}{paused}"
        case "Rescale":
            paused = "; it is paused" if controls.paused is not None else ""
            return f"reading {format_width(controls)}{at}{paused}"
        case "Stop":
            return f"the attempt ends at a barrier{at}"
        case "Verify":
            return f"the driver compares source and target{at}"
        case _ if controls.paused == "All":
            return f"paused{at}; changes are paused too"
        case _ if controls.paused is not None:
            return f"paused{at}; changes continue"
        case _:
            return f"running{at}{',' if at else ''} {f'limited to {limit}' if limit else 'without a limit'}"


def describe_place(progress: ProgressSummary | None) -> str:
    """Return the part of a sentence that names the committed rows: ` at 8 % (246,015 rows)`; empty if unknown."""
    if progress is None:
        return ""
    return f" at {progress.percent} % ({counted(progress.rows_done, 'row')})"


def width_arguments(shown: object) -> tuple[str, ...]:
    """Return the arguments of the command `rescale` for values of the width, such as those of a command."""
    given = given_width(shown)
    options = [(option, given[name]) for name, option in WIDTH_OPTIONS.items() if name in given]
    pieces = [str(given["max_in_flight"])] if "max_in_flight" in given else []
    return (*pieces, *(text for option, value in options for text in (option, str(value))))


def undo_arguments(command: CommandType, before: Controls) -> tuple[str, ...]:
    """Return the command that restores the controls of before; empty if it cannot be undone."""
    match command:
        case "Pause":
            return ("resume",)
        case "Resume" if before.paused is not None:
            return ("pause", "--with-changes") if before.paused == "All" else ("pause",)
        case "Throttle":
            rows, size = before.rows_per_second, before.bytes_per_second
            arguments = ["throttle", "none" if rows is None else str(rows)]
            arguments += [] if size is None else ["--bytes", f"{size}B"]
            return tuple(arguments + ([] if before.until is None else ["--until", before.until]))
        case "Rescale" if width_arguments(before):
            return ("rescale", *width_arguments(before))
        case _:
            return ()


def acknowledged(
    state: str, *, proof: str = "", seconds: float | None = None, undo: str = "", following: str = ""
) -> str:
    """Return the answer to a command.

    Args:
        state: The state that holds now.
        proof: The acknowledgement, such as `epoch 14`; empty if no driver had to confirm.
        seconds: Seconds to the acknowledgement; `None` if there is none.
        undo: The command that undoes it; empty if none does.
        following: The command that a user usually types next; empty if there is none.
    """
    sentences = [f"{state}."]
    if seconds is not None:
        sentences.append(f"Acknowledged{f' at {proof}' if proof else ''} in {seconds:.1f} s.")
    sentences += [f"Undo: {undo}"] if undo else []
    sentences += [f"Next: {following}"] if following else []
    return " ".join(sentences)
