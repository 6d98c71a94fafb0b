"""Argo CD, reduced to running the scripts of a custom resource: Lua 5.1, the object as `obj`, JSON in and out.

A script has the libraries that Argo CD opens (util/lua/lua.go): package, base, table, and an `os` with `time` and `date`.
"""

import copy

import yaml
from lupa.lua51 import LuaRuntime, lua_type
from support.repository import ROOT

CONFIG = yaml.safe_load((ROOT / "examples" / "gitops" / "argo-cd.yaml").read_text())["data"]
KEY = "resource.customizations.{}.backfill.dev_Backfill"

AS_ARGO_CD = """
debug.setmetatable("", nil)
local os = {time = os.time, date = os.date}
for _, name in ipairs({"string", "math", "io", "debug", "coroutine", "bit", "jit", "python"}) do
  _G[name], package.loaded[name], package.preload[name] = nil, nil, nil
end
_G.os, package.loaded.os = os, os
"""
"""Without the metatable a string has no methods either: it can only be joined, compared and measured."""


class ArgoCd:
    """Argo CD's health of a Backfill, and the results of its actions."""

    def __init__(self):
        self._health = CONFIG[KEY.format("health")]
        actions = yaml.safe_load(CONFIG[KEY.format("actions")])
        self._discovery = actions["discovery.lua"]
        self._actions = {action["name"]: action["action.lua"] for action in actions["definitions"]}

    def health(self, backfill):
        """Return the status and the message; no script runs for an object that is being deleted."""
        if backfill["metadata"].get("deletionTimestamp"):
            return "Progressing", "Pending deletion"
        result = run(self._health, backfill)
        return result["status"], result["message"]

    def offered(self, backfill):
        """Return the names of the offered actions; each must have a script."""
        result = run(self._discovery, backfill)
        assert result.keys() == self._actions.keys()
        return {name for name, action in result.items() if action["disabled"] is False}

    def act(self, name, backfill):
        """Return the object after an action."""
        return run(self._actions[name], backfill)


def run(script, backfill):
    """Run a script on a copy of an object; return its result as JSON values."""
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    lua.execute(AS_ARGO_CD)
    lua.globals().obj = _into(lua, copy.deepcopy(backfill))
    return _out(lua.execute(script))


def _into(lua, value_):
    match value_:
        case dict():
            return lua.table_from({key: _into(lua, value) for key, value in value_.items()})
        case list():
            return lua.table_from([_into(lua, value) for value in value_])
        case _:
            return value_


def _out(table):
    if lua_type(table) != "table":
        return table
    keys = list(table.keys())
    if keys and all(isinstance(key, int) for key in keys):
        return [_out(table[key]) for key in sorted(keys)]
    return {key: _out(table[key]) for key in keys}
