"""Keys of the watch of one job: each one changes the screen, or requests a change of the job."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from backfill_api.typed_amounts import parse_rate

KEYS: Final = (
    ("p", "pause"), ("r", "resume"), ("t", "throttle"), ("v", "verify"), ("l", "logs"), ("e", "events"), ("g", "grid"), ("q", "quit"),
)  # fmt: skip
"""Keys, each with its action."""

View = Literal["job", "logs", "events", "grid"]


@dataclass(frozen=True, slots=True)
class Pause:
    """Hold the snapshot; changes continue."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo a pause."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Limit the snapshot."""

    rows_per_second: int | None
    """`None` removes the limit."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare source and target now."""


KeyCommand = Pause | Resume | Throttle | Verify

VIEWS: Final[dict[str, View]] = {"l": "logs", "e": "events", "g": "grid"}
COMMANDS: Final[dict[str, KeyCommand]] = {"p": Pause(), "r": Resume(), "v": Verify()}
NAMES: Final = {Pause: "pause", Resume: "resume", Throttle: "throttle", Verify: "verify"}
ENTER: Final = frozenset("\r\n")
ERASE: Final = frozenset("\x7f\x08")
ESCAPE: Final = "\x1b"
RATE_CHARACTERS_MAX: Final = 20
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)")
"""Sequences of arrow keys, function keys and a mouse."""


@dataclass(frozen=True, slots=True)
class Quit:
    """The watch ends; the job is unchanged."""


@dataclass(frozen=True, slots=True)
class KeyScreen:
    """State of the screen."""

    view: View = "job"
    typed: str | None = None
    """The typed part of a limit; `None` while no limit is typed."""

    waits_for: str = ""
    """Name of the command that is not acknowledged yet; empty if none is."""

    message: str = ""
    """Answer to the last key."""

    @property
    def note(self) -> str:
        """Return the message to the user in front of the screen."""
        if self.typed is not None:
            return f"throttle to rows a second (50000, 200k, none): {self.typed}_   Enter sends it, Esc does not"
        return self.message


def keys_in(text: str) -> list[str]:
    """Return the keys of a part of the input; sequences of special keys are left out."""
    return list(_SEQUENCE.sub("", text))


def press(screen: KeyScreen, key: str) -> tuple[KeyScreen, KeyCommand | Quit | None]:
    """Return the screen after a key, and the requested command; an unknown key changes nothing."""
    if screen.typed is not None:
        return _typed(screen, screen.typed, key)
    key = key.lower()
    if key != ESCAPE and all(key != known for known, _ in KEYS):
        return screen, None
    if key == "q":
        return screen, Quit()
    if key == ESCAPE:
        return replace(screen, view="job", message=""), None
    if key in VIEWS:
        # The same key returns to the job.
        view = VIEWS[key]
        return replace(screen, view="job" if screen.view == view else view), None
    if screen.waits_for:
        return replace(screen, message=f"wait: {screen.waits_for} is not acknowledged yet"), None
    if key == "t":
        return replace(screen, typed="", message=""), None
    return _sent(screen, COMMANDS[key])


def _typed(screen: KeyScreen, typed: str, key: str) -> tuple[KeyScreen, KeyCommand | Quit | None]:
    """Return the screen after a key while a limit is typed."""
    if key == ESCAPE:
        return replace(screen, typed=None, message="the limit is unchanged"), None
    if key in ERASE:
        return replace(screen, typed=typed[:-1]), None
    if key not in ENTER:
        return replace(screen, typed=(typed + key)[:RATE_CHARACTERS_MAX] if key.isprintable() else typed), None
    try:
        rate = parse_rate(typed.strip())
    except ValueError as error:
        return replace(screen, typed=None, message=f"the limit is unchanged: {error}"), None
    return _sent(replace(screen, typed=None), Throttle(rate))


def _sent(screen: KeyScreen, command: KeyCommand) -> tuple[KeyScreen, KeyCommand]:
    name = NAMES[type(command)]
    return replace(screen, waits_for=name, message=f"{name}: not acknowledged yet"), command


def answered(screen: KeyScreen, text: str) -> KeyScreen:
    """Return the screen after the answer to a command."""
    return replace(screen, waits_for="", message=text)
