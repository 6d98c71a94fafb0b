"""Argo CD as far as it runs the scripts of a custom resource: Lua 5.1, the object as `obj`, JSON in and out.

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
"""Without the metatable a text has no methods either: it is joined, compared and measured, no more."""


class ArgoCd:
    """What Argo CD says of a Backfill, and what its actions make of one."""

    def __init__(self):
        self._health = CONFIG[KEY.format("health")]
        actions = yaml.safe_load(CONFIG[KEY.format("actions")])
        self._discovery = actions["discovery.lua"]
        self._actions = {one["name"]: one["action.lua"] for one in actions["definitions"]}

    def health(self, backfill):
        """Return the status and the message; no script is asked about an object that is being deleted."""
        if backfill["metadata"].get("deletionTimestamp"):
            return "Progressing", "Pending deletion"
        said = run(self._health, backfill)
        return said["status"], said["message"]

    def offered(self, backfill):
        """Return the names of the actions that are offered; each must have a script."""
        said = run(self._discovery, backfill)
        assert said.keys() == self._actions.keys()
        return {name for name, one in said.items() if one["disabled"] is False}

    def act(self, name, backfill):
        """Return the object as an action leaves it."""
        return run(self._actions[name], backfill)


def run(script, backfill):
    """Run a script on an object of its own; return what it returns, as JSON would have it."""
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    lua.execute(AS_ARGO_CD)
    lua.globals().obj = _into(lua, copy.deepcopy(backfill))
    return _out(lua.execute(script))


def _into(lua, one):
    match one:
        case dict():
            return lua.table_from({key: _into(lua, value) for key, value in one.items()})
        case list():
            return lua.table_from([_into(lua, value) for value in one])
        case _:
            return one


def _out(one):
    if lua_type(one) != "table":
        return one
    keys = list(one.keys())
    if keys and all(isinstance(key, int) for key in keys):
        return [_out(one[key]) for key in sorted(keys)]
    return {key: _out(one[key]) for key in keys}
