"""The chart: its rules as files, and what helm makes of it. Without helm a test is skipped and says so."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from support.cluster.harness import tool
from support.repository import ROOT

CHART = ROOT / "charts" / "backfill-operator"
RELEASE = "backfill-operator"
SYSTEM = "backfill-system"
TENANTS = ("shop", "stock")
RULES = {
    path.stem.removesuffix("-rules"): yaml.safe_load(path.read_text()) for path in CHART.glob("files/*-rules.yaml")
}
"""Rules of roles by whose they are; roles have them from these files, which are read without helm too."""


def run(*words, environ=None):
    """Run helm; return what became of it. Skips the test where there is none."""
    found = tool("helm")
    if found is None:
        pytest.skip("no helm: not on the path, and not built by the kit (build --helm)")
    given = {**os.environ, "HELM_NAMESPACE": SYSTEM} | (environ or {})
    return subprocess.run([found, *map(str, words)], env=given, capture_output=True, text=True, check=False)


def rendered(namespaces=TENANTS, *, system=SYSTEM, **values):
    """Return the objects that an installation has; values are topics, as in values.yaml."""
    return list(_rendered(system, json.dumps({"watch": {"namespaces": list(namespaces)}} | values), "--skip-tests"))


def trial(*, system=SYSTEM, **values):
    """Return the objects that `helm test` makes, in their order."""
    given = json.dumps({"watch": {"namespaces": list(TENANTS)}} | values)
    hooks = [one for one in _rendered(system, given) if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    return sorted(hooks, key=lambda one: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]))


@cache
def _rendered(system, values, *words):
    done = run("template", RELEASE, CHART, "--namespace", system, *words, *as_flags(json.loads(values)))
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one)


def notes(folder, **values):
    """Return what helm prints after an installation, without a server: a copy of the chart has it as an object."""
    chart = Path(shutil.copytree(CHART, folder / "chart", dirs_exist_ok=True))
    (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}\n'
    )
    given = {"watch": {"namespaces": list(TENANTS)}} | values
    words = ("--namespace", SYSTEM, "--show-only", "templates/notes.yaml", *as_flags(given))
    done = run("template", RELEASE, chart, *words)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["text"]


def refusal(**values):
    """Return what helm says of values that it will not have."""
    done = run("template", RELEASE, CHART, "--namespace", SYSTEM, *as_flags(values))
    assert done.returncode != 0, "helm takes it"
    return done.stderr


def as_flags(values):
    """Return values as helm's flags."""
    return [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]


def of_kind(objects, *kinds):
    """Return the objects of some kinds."""
    return [one for one in objects if one["kind"] in kinds]


def of_the_operator(objects):
    """Return the objects without the roles that only add Backfills to Kubernetes' own roles for users."""
    return [one for one in objects if not any("/aggregate-to-" in name for name in one["metadata"]["labels"])]


def only(objects, kind):
    """Return the one object of a kind."""
    [one] = of_kind(objects, kind)
    return one


def place(one):
    """Return namespace and name."""
    return one["metadata"].get("namespace"), one["metadata"]["name"]


def allowed(rules):
    """Return (group, resource, verb) of every rule."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
