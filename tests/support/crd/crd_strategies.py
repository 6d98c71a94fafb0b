"""Objects drawn from the CRD's schema: all that pass a server's check of types, bounds and required fields."""

import re
from datetime import datetime

from hypothesis import strategies as st
from support.crd.cel import broken
from support.crd.crd_rows import ACCEPTED
from support.crd.crd_specs import CRD, SCHEMA, filled

from backfill_api.model import member_of

STATUS = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
LONGEST = 12
"""Length of the longest strings; the bounds of the schema are in the thousands."""

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)


def drawn(schema):
    """Return a strategy for values that a structural schema accepts, CEL rules aside.

    Raises:
        ValueError: the schema has a feature that this function does not draw.
    """
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            return _objects(schema)
        case "array":
            items = drawn(schema["items"])
            if schema.get("x-kubernetes-list-type") == "map":
                key = schema["x-kubernetes-list-map-keys"][0]
                return st.lists(items, max_size=3, unique_by=lambda item: item[key])
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=3)
        case "string":
            return _texts(schema)
        case "integer":
            return _numbers(schema)
        case "boolean":
            return st.booleans()
    raise ValueError(f"nothing draws {schema}")


def _objects(schema):
    if "properties" in schema:
        fields = {name: drawn(below) for name, below in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=fields)
    if isinstance(schema.get("additionalProperties"), dict):
        return st.dictionaries(st.text(min_size=1, max_size=LONGEST), drawn(schema["additionalProperties"]), max_size=3)
    return st.dictionaries(st.text(max_size=LONGEST), anything, max_size=3)


def _texts(schema):
    longest = min(schema.get("maxLength", LONGEST), LONGEST)
    if schema.get("format") == "date-time":
        # The API server refuses a time that is not in the calendar.
        return st.datetimes(datetime(2000, 1, 1), datetime(2999, 12, 31)).map(lambda time: f"{time.isoformat()}Z")
    if "pattern" in schema:
        strings = st.from_regex(schema["pattern"]).map(str.strip)
        return strings.map(
            lambda text: text[:longest] if re.search(schema["pattern"], text[:longest]) else text
        ).filter(bool)
    return st.text(min_size=schema.get("minLength", 0), max_size=longest)


def _numbers(schema):
    low, high = schema.get("minimum", -(2**53)), schema.get("maximum", 2**53)
    return st.integers(low, high) | st.integers(low, min(high, low + 20))


specs = drawn(SCHEMA)
statuses = drawn(STATUS)


def _of_one_type(schema, given):
    """Return a strategy for a union that has only the member of its type."""
    fields = schema["properties"]
    kind = given.get("type", fields["type"].get("default"))
    member = member_of(kind)
    whole = st.just(given[member]) if member in given else drawn(fields[member])
    return whole.map(lambda value: {"type": kind, member: value})


def _parts(value, path=()):
    """Yield each field of an object with its path, an object before its own fields."""
    for name, below in value.items() if isinstance(value, dict) else ():
        yield (*path, name), below
        yield from _parts(below, (*path, name))


def _with(value, path, below):
    """Return an object with another field; `None` without an object for it, which may need further fields."""
    if not isinstance(value, dict):
        return None
    inner = below if len(path) == 1 else _with(value.get(path[0]), path[1:], below)
    return None if inner is None else {**value, path[0]: inner}


OF_MODELS = {
    "path",
    "table",
    "quarantinePath",
    "allowFilesOutside",
    "eventLog",
    "partitionStartingOffsets",
    "timeZone",
    "storeErrors",
}
"""Fields that the models check further: locations, names, partitions, and refused requests, which only a location on S3 has."""


def _without_rules_of_models(value):
    if not isinstance(value, dict):
        return value
    return {name: _without_rules_of_models(below) for name, below in value.items() if name not in OF_MODELS}


@st.composite
def sound_specs(draw):
    """Draw a spec that the CRD accepts: an accepted one, with each field of a drawn one that breaks no CEL rule."""
    spec, other = draw(st.sampled_from(sorted(ACCEPTED.values(), key=repr))), draw(specs)
    for union in ("source", "target", "strategy"):
        if union in other:
            other[union] = draw(_of_one_type(SCHEMA["properties"][union], other[union]))
    for path, value in _parts(_without_rules_of_models(other)):
        changed = _with(spec, path, value)
        if changed is not None and not any(broken(SCHEMA, filled(SCHEMA, changed))):
            spec = changed
    return spec
