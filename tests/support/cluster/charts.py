"""The chart: its rules as files, and the objects that helm renders. Without helm a test is skipped with that reason."""

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
TENANT_CHART = CHART.parent / "backfill-tenant"
RELEASE = "backfill-operator"
SYSTEM = "backfill-system"
TENANTS = ("shop", "stock")
RULES = {
    path.stem.removesuffix("-rules"): yaml.safe_load(path.read_text()) for path in CHART.glob("files/*-rules.yaml")
}
"""Rules of roles by the name of their owner; the chart's roles contain these files, which are read without helm too."""


def run(*arguments, environ=None):
    """Run helm and return its result; skip the test if helm is missing."""
    helm = tool("helm")
    if helm is None:
        pytest.skip("no helm: not on the path, and not built by the kit (build --helm)")
    given = {**os.environ, "HELM_NAMESPACE": SYSTEM} | (environ or {})
    return subprocess.run([helm, *map(str, arguments)], env=given, capture_output=True, text=True, check=False)


def rendered(namespaces=TENANTS, *, system=SYSTEM, **values):
    """Return the objects of an installation; values are given by topic, as in values.yaml."""
    settings = json.dumps({"watch": {"namespaces": list(namespaces)}} | values)
    return [object_ for object_ in _rendered(system, settings) if "test" not in hook_of(object_)]


def tenant_objects(namespace, system=SYSTEM):
    """Return the objects of the tenant's chart in a namespace."""
    operator = json.dumps({"release": RELEASE, "namespace": system})
    done = run("template", "tenant", TENANT_CHART, "--namespace", namespace, "--set-json", f"operator={operator}")
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def trial(*, system=SYSTEM, **values):
    """Return the objects that `helm test` makes, in order."""
    settings = json.dumps({"watch": {"namespaces": list(TENANTS)}} | values)
    hooks = [object_ for object_ in _rendered(system, settings) if hook_of(object_)]
    return sorted(hooks, key=lambda hook: int(hook["metadata"]["annotations"]["helm.sh/hook-weight"]))


def hook_of(object_):
    """Return the events at which helm makes an object; empty if it belongs to the release."""
    return object_["metadata"].get("annotations", {}).get("helm.sh/hook", "")


@cache
def _rendered(system, values):
    """Render a set of values once: the objects of the release, and then those of `helm test`."""
    done = run("template", RELEASE, CHART, "--namespace", system, *as_flags(json.loads(values)))
    assert done.returncode == 0, done.stderr
    return tuple(document for text in done.stdout.split("\n---\n") if (document := _parsed(text)))


@cache
def _parsed(text):
    """Parse one document once: most documents, such as the CRD, are equal in all sets of values."""
    return yaml.load(text.removeprefix("---\n"), yaml.CSafeLoader)


def notes(folder, **values):
    """Return the notes that helm prints after an installation, without a server: a copy of the chart renders them as an object."""
    chart = Path(shutil.copytree(CHART, folder / "chart", dirs_exist_ok=True))
    (chart / "templates" / "NOTES.txt").rename(chart / "files" / "NOTES.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}\n'
    )
    settings = {"watch": {"namespaces": list(TENANTS)}} | values
    options = ("--namespace", SYSTEM, "--show-only", "templates/notes.yaml", *as_flags(settings))
    done = run("template", RELEASE, chart, *options)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["text"]


def refusal(**values):
    """Return helm's error for values that it rejects."""
    done = run("template", RELEASE, CHART, "--namespace", SYSTEM, *as_flags(values))
    assert done.returncode != 0, "helm accepts the values"
    return done.stderr


def as_flags(values):
    """Return values as helm's flags."""
    return [flag for name, value in values.items() for flag in ("--set-json", f"{name}={json.dumps(value)}")]


def of_kind(objects, *kinds):
    """Return the objects of some kinds."""
    return [object_ for object_ in objects if object_["kind"] in kinds]


def of_the_operator(objects):
    """Return the objects without the roles that only add Backfills to Kubernetes' default roles for users."""
    return [
        object_ for object_ in objects if not any("/aggregate-to-" in name for name in object_["metadata"]["labels"])
    ]


def only(objects, kind):
    """Return the only object of a kind."""
    [object_] = of_kind(objects, kind)
    return object_


def place(object_):
    """Return namespace and name."""
    return object_["metadata"].get("namespace"), object_["metadata"]["name"]


def allowed(rules):
    """Return (group, resource, verb) of every rule."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
