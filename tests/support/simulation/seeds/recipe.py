"""A scenario as a line of text: its differences from the world that its seed draws, so that one command repeats it."""

from __future__ import annotations

import ast
from dataclasses import asdict, fields, replace
from typing import Any

from support.simulation.model import model_of
from support.simulation.scenario import Scenario, Script, scenario

FIXED = ("strategy", "seed", "script")
SCRIPT = "script."


def write(given: Scenario) -> str:
    """Return `knob=value` for each knob that differs from the seed's, and for each list of a script."""
    drawn = scenario(given.strategy, model_of(given.strategy).MODES, given.seed)
    names = [knob.name for knob in fields(Scenario) if knob.name not in FIXED]
    settings = [f"{name}={getattr(given, name)}" for name in names if getattr(given, name) != getattr(drawn, name)]
    if given.script is not None:
        settings += [f"{SCRIPT}{name}={','.join(map(str, kept))}" for name, kept in asdict(given.script).items()]
    return " ".join(settings)


def read(strategy: str, seed: int, text: str) -> Scenario:
    """Return the scenario of a seed and of the text that `write` returned.

    Raises:
        ValueError: names an unknown knob.
    """
    given = scenario(strategy, model_of(strategy).MODES, seed)
    knobs = {knob.name for knob in fields(Scenario)} - set(FIXED)
    knobs |= {SCRIPT + knob.name for knob in fields(Script)}
    pairs = dict(word.split("=", 1) for word in text.split())
    if unknown := sorted(set(pairs) - knobs):
        raise ValueError(f"no knob {', '.join(unknown)}; there are {', '.join(sorted(knobs))}")
    lists = {name: value for name, value in pairs.items() if name.startswith(SCRIPT)}
    changes: dict[str, Any] = {name: _value(value) for name, value in pairs.items() if name not in lists}
    if lists:
        numbers = {
            name.removeprefix(SCRIPT): tuple(map(int, filter(None, numbers_.split(","))))
            for name, numbers_ in lists.items()
        }
        changes["script"] = Script(**numbers)
    return replace(given, **changes)


def _value(text: str) -> Any:
    """Return a number, a boolean or `None`; anything else is a name."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def command(given: Scenario) -> str:
    """Return the command that repeats a scenario."""
    knobs = write(given)
    return f"make simulate STRATEGY={given.strategy} SEED={given.seed}" + (f' WITH="{knobs}"' if knobs else "")
