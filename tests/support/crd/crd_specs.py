"""Builders of specs, and readers of the CRD: its schema, its rules and its defaults."""

import copy

import yaml
from support.operators.rig import SPEC
from support.repository import ROOT

CRD = yaml.load((ROOT / "crds" / "backfills.yaml").read_text(), yaml.CSafeLoader)
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

DELTA = {"path": "/data/a", "key": ["id"]}


def spec(**fields):
    """Return the smallest spec, changed; `None` removes a field."""
    return {name: value for name, value in (SPEC | fields).items() if value is not None}


def target(**fields):
    """Return a target, changed; `None` removes a field of the table."""
    table = {name: value for name, value in ({"path": "/data/b"} | fields).items() if value is not None}
    return {"type": "Delta", "delta": table}


def source(**fields):
    """Return a Delta source, changed."""
    return {"type": "Delta", "delta": DELTA | fields}


def topic(**fields):
    """Return a Kafka source, changed."""
    return {"type": "Kafka", "kafka": {"bootstrapServers": "broker:9092", "topic": "orders"} | fields}


def of_a_topic(source=None, **fields):
    """Return the smallest spec of a Kafka source, changed."""
    appended = {"source": source or topic(), "target": target(), "strategy": {"type": "SourceSplits"}}
    return spec(**(appended | fields))


def rules(schema=SCHEMA, path="spec"):
    """Yield (path, rule, message) of every CEL rule below a schema."""
    for validation in schema.get("x-kubernetes-validations", ()):
        yield path, validation["rule"], validation["message"]
    for name, below in schema.get("properties", {}).items():
        yield from rules(below, f"{path}.{name}")
    for further in ("items", "additionalProperties"):
        if isinstance(schema.get(further), dict):
            yield from rules(schema[further], f"{path}.{further}")


def defaults(schema=SCHEMA, path="spec"):
    """Yield the path of every default below a schema."""
    for name, below in schema.get("properties", {}).items():
        if "default" in below:
            yield f"{path}.{name}"
        yield from defaults(below, f"{path}.{name}")


def filled(schema, value, path="spec", seen=None):
    """Return a value with the defaults of a schema; `seen` collects the paths of the defaults that were filled in."""
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    made = dict(value)
    for name, below in schema["properties"].items():
        here = f"{path}.{name}"
        if name not in made and "default" in below:
            made[name] = copy.deepcopy(below["default"])
            if seen is not None:
                seen.add(here)
        if name in made:
            made[name] = filled(below, made[name], here, seen)
    return made


def at(document, path):
    """Return the value at `spec.a.b`; `None` if there is none."""
    for name in path.split(".")[1:]:
        document = document.get(name) if isinstance(document, dict) else None
    return document
