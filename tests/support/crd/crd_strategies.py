"""Objects drawn from the CRD's schema: all that pass a server's check of types, bounds and required fields."""

import re
from datetime import datetime

from hypothesis import strategies as st
from support.crd.crd_rows import FILLING, OF_TOPICS
from support.crd.crd_specs import CRD, SCHEMA, topic

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


def _with_members_of_its_type(flip):
    """Remove the members of other types from a flip, and the type of a flip that lacks its member."""
    members = {"HiveTable": "name", "View": "name", "Command": "command"}
    needed = members.get(flip.get("type"))
    if needed is not None and not flip.get(needed):
        del flip["type"]
        needed = None
    for member in {*members.values()} - {needed}:
        flip.pop(member, None)


def _with_one_start(spec, target):
    """Remove the second start of a source, and what needs a snapshot from a job that reads none, or that."""
    for source in [value for value in spec["source"].values() if isinstance(value, dict)]:
        if "version" in source:
            source.pop("timestamp", None)
        if source.get("changesOnly"):
            if spec.get("strategy", {}).get("type", "Snapshot") != "Snapshot" or {"publish", "scope"} & target.keys():
                del source["changesOnly"]
            else:
                spec.pop("verify", None)
                spec.get("switch", {}).pop("when", None)


def _with_set_of_its_strategy(spec, target):
    """Let a strategy that fills columns name one, and nothing of a copy; remove `set` from other strategies."""
    if spec.get("strategy", {}).get("type") != FILLING:
        for name in ("set", "setWhere"):
            spec.get("transform", {}).pop(name, None)
        target.pop("dataChange", None)
        return
    spec["transform"] = {"set": {"norm": "upper(name)"}}
    spec.pop("after", None)
    spec.pop("refresh", None)
    spec.get("switch", {}).pop("when", None)
    for name in ("writeMode", "partitionBy", "clusterBy", "properties", "scope"):
        target.pop(name, None)
    for source in [value for value in spec["source"].values() if isinstance(value, dict)]:
        for name in ("version", "timestamp", "hold", "allowFilesOutside"):
            source.pop(name, None)
    params = spec["strategy"].get("inPlace", {})
    if "writersSince" in params:
        params.pop("writersSinceTime", None)


@st.composite
def sound_specs(draw):
    """Draw a spec of the schema that also keeps the CEL rules, as far as removing fields achieves that."""
    spec = draw(specs)
    for union in ("source", "target", "strategy"):
        if union in spec:
            spec[union] = draw(_of_one_type(SCHEMA["properties"][union], spec[union]))
    of_topic = spec["source"]["type"] == "Kafka"
    if of_topic:
        spec |= {"source": topic(), "strategy": {"type": OF_TOPICS}}
        spec.get("throttle", {}).pop("bytesPerSecond", None)
    elif spec.get("strategy", {}).get("type") == OF_TOPICS:
        del spec["strategy"]
    for end in ("target",) if of_topic else ("source", "target"):
        for member in [value for value in spec[end].values() if isinstance(value, dict)]:
            member.pop("table", None)
            member["path"] = "/data/a"
            if "allowFilesOutside" in member:
                member["allowFilesOutside"] = ["/data/b" for _ in member["allowFilesOutside"]]
    if spec.get("strategy", {}).get("type") != "Replica":
        for member in [value for value in spec["source"].values() if isinstance(value, dict)]:
            if member.get("schemaChange") == "Follow":
                del member["schemaChange"]
    target = next(value for value in spec["target"].values() if isinstance(value, dict))
    target |= {"writeMode": "Append"} if of_topic else {"key": ["id"]}
    target.pop("clusterBy", None)
    if spec.get("strategy", {}).get("type") == "Replica":
        target.pop("writeMode", None)
        target.pop("partitionBy", None)
    target.pop("existingRows", None)
    if spec.get("strategy", {}).get("type", "Snapshot") not in {"Replica", "Snapshot"}:
        target.pop("publish", None)
        target.pop("filteredRows", None)
    if target.get("publish", "Continuously") == "Continuously" or spec.get("after") == "Follow":
        target.pop("scope", None)
    if "scope" in target:
        target.pop("filteredRows", None)
    _with_one_start(spec, target)
    _with_set_of_its_strategy(spec, target)
    _with_members_of_its_type(spec.get("switch", {}).get("flip", {}))
    if spec.get("after") != "Follow":
        spec.get("switch", {}).pop("when", None)
    if "refresh" in spec:
        spec["refresh"] = {"schedule": draw(st.sampled_from(("0 2 * * *", "*/15 8-18 * * 1-5")))}
    ends_for_good = spec.get("strategy", {}).get("type") == "RearrangedChain"
    if spec.get("after") == "Follow" or "ttlSecondsAfterFinished" in spec or ends_for_good:
        spec.pop("refresh", None)
    if spec.get("deletionPolicy") == "Drop":
        spec.pop("ttlSecondsAfterFinished", None)
        if "scope" in target or spec.get("strategy", {}).get("type") == FILLING:
            del spec["deletionPolicy"]
    if "eventLog" in spec.get("spark", {}):
        spec["spark"]["eventLog"]["path"] = "/data/events"
    if "scratch" in spec:
        members = ({}, {"size": "20Gi"}, {"size": "20Gi", "storageClassName": "fast"}, {"claimName": "scratch"})
        spec["scratch"] = draw(st.sampled_from(members))
    spec.pop("backoff", None)
    throttle = spec.get("throttle", {})
    if not {"rowsPerSecond", "bytesPerSecond"} & throttle.keys():
        throttle.pop("until", None)
    if "auto" in throttle:
        auto = throttle["auto"]
        auto["ceiling"] = max(auto["floor"], auto["ceiling"])
        if not of_topic and spec.get("strategy", {}).get("type") != "Arrangement":
            auto.pop("lagSecondsMax", None)
        auto.pop("storeErrors", None)  # only for a path on S3
        if not {"commitSeconds", "lagSecondsMax", "query"} & auto.keys():
            auto["commitSeconds"] = 2
    executor = spec.get("executor", {})
    if "instances" in executor:
        executor.pop("dynamic", None)
    if "dynamic" in executor:
        executor["dynamic"] = {"min": 1, "max": 3}
    return spec
