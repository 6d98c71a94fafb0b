"""Switch-over of a job from its source to its target, as a spec describes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from backfill_api.model import Model, cel, refused
from backfill_api.spec.bounds import Name, Value

Argument = Annotated[Value, StringConstraints(min_length=1)]

NAMED: Final = ("HiveTable", "View")
"""Types of flips that change a name in a catalog."""

HINTS: Final = {"name": "name: sales.orders", "command": "command: [./flip.sh]"}


class FlipSpec(Model):
    """Change of the name under which readers and writers find the table."""

    model_config = cel(
        (
            "(has(self.type) && self.type in ['HiveTable', 'View']) == has(self.name)",
            "name belongs to the types HiveTable and View",
        ),
        (
            "(has(self.type) && self.type == 'Command') == (has(self.command) && self.command.size() > 0)",
            "command belongs to type Command",
        ),
    )

    type: Literal["None", "HiveTable", "View", "Command"] = "None"
    """`HiveTable`: the location of a table in the catalog; `View`: the definition of a view; `Command`: an executable, not on a
    cluster; `None`: users change the name themselves."""

    name: Name | None = None
    """Name of the table or view in Spark's catalog, such as `sales.orders`."""

    command: Annotated[tuple[Argument, ...], Field(max_length=64)] = ()
    """Executable with arguments. It gets one more: `show` prints the folder to which the name points, `set` and a folder changes it."""

    @model_validator(mode="after")
    def _has_its_member(self) -> Self:
        given = {"name": self.name is not None, "command": bool(self.command)}
        needed = {"name": self.type in NAMED, "command": self.type == "Command"}
        for field, hint in HINTS.items():
            if needed[field] and not given[field]:
                raise refused(field, f"is required, because type is {self.type}", hint=f"add {hint}")
            if given[field] and not needed[field]:
                types = " or ".join(NAMED) if field == "name" else "Command"
                message = f"must be left out, because type is {self.type}"
                raise refused(field, message, hint=f"remove it, or set type: {types}")
        return self


class SwitchSpec(Model):
    """Switch-over of readers and writers from the source to the target: `backfill switch`."""

    when: Literal["Manual", "WhenVerified"] = "Manual"
    """On a cluster. `Manual`: after the annotation `backfill.dev/switch-requested`. `WhenVerified`: once the target has caught up and
    the newest receipt is equal, which is taken if there is none; after an undo never again."""

    flip: FlipSpec = FlipSpec()
    """Change of the name under which readers and writers find the table."""

    keep_source: Literal["Fenced", "Following", "Released"] = "Fenced"
    """State of the source after the switch. `Fenced`: read-only until `backfill switch --complete`, so that `--undo` is possible.
    `Following`: also gets the target's later files, while `backfill switch` or a cluster's driver runs; strategy `Replica`. `Released`: the switch completes at once, and the source accepts writes that the target never gets."""


def check_switch(switch: SwitchSpec, after: str) -> None:
    """Refuse a switch-over by itself of a job that ends.

    Raises:
        PydanticCustomError: with the path of the field.
    """
    if switch.when == "WhenVerified" and after != "Follow":
        hint = "set after: Follow, or switch.when: Manual"
        raise refused("switch.when", "switches over a job that follows its source", hint=hint, value=switch.when)


def switch_rules() -> Iterator[tuple[str, str]]:
    """Yield the CEL rules of `check_switch`, each with its message."""
    yield (
        "!has(self.switch) || !has(self.switch.when) || self.switch.when != 'WhenVerified' || self.after == 'Follow'",
        "switch.when: WhenVerified switches over a job that follows its source: set after: Follow",
    )
