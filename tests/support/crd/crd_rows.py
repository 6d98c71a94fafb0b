"""Specs that the CRD must accept or reject, row by row; a rejected row names the rule that it breaks.

tests/control_plane/chart/test_crd.py proves them on a real API server, and fails for a rule of the CRD without rows.
"""

import re
from dataclasses import dataclass

from support.crd.crd_specs import DELTA, SCHEMA, of_a_topic, rules, source, spec, target, topic

from backfill_api.model import member_of
from backfill_api.spec.end_of_life.deletion import FILLS, NAME_STAYS, RESULT_GOES, ROWS_OF_OTHERS

ACCEPTED = {
    "the least": spec(),
    "a table by name": spec(source={"type": "Delta", "delta": {"table": "shop.orders", "key": ["id"]}}),
    "a start at a time": spec(source=source(timestamp="2026-11-26T18:00:00+01:00", hold="Extend")),
    "changes of a copied table": spec(
        source=source(version=3, changesOnly=True), target=target(existingRows="Keep"), after="Follow"
    ),
    "a target by name": spec(target=target(path=None, table="shop.copy")),
    "a target without a type": spec(target={"delta": {"path": "/data/b"}}),
    "an append without a key": spec(
        source={"type": "Delta", "delta": {"path": "/a"}}, target=target(writeMode="Append")
    ),
    "a changelog without a key": spec(
        source={"type": "Delta", "delta": {"path": "/a"}}, target=target(writeMode="Changelog")
    ),
    "the target's key": spec(source={"type": "Delta", "delta": {"path": "/a"}}, target=target(key=["id"])),
    "a version": spec(source=source(version=7, schemaChange="Ignore")),
    "columns that a replica follows": spec(
        source=source(key=[], schemaChange="Follow"), target={"type": "Delta", "delta": {"path": "/b"}}, strategy={"type": "Replica"}
    ),
    "files of an origin": spec(source=source(allowFilesOutside=["/data/origin", "s3a://bucket/origin", "FILE:/x"])),
    "a transform": spec(transform={"select": ["id", "upper(name) AS name"], "where": "id > 5"}),
    "partitions": spec(target=target(partitionBy=["day"], clusterBy=[], properties={"delta.appendOnly": "false"})),
    "an append of a topic that says so": of_a_topic(target=target(writeMode="Append")),
    "an upsert of a topic": of_a_topic(target=target(writeMode="Upsert", key=["id"])),
    "kept rows beside those of a topic": of_a_topic(target=target(existingRows="Keep")),
    "clusters": spec(target=target(clusterBy=["id"], writeMode="Append", existingRows="Keep")),
    "the snapshot": spec(strategy={"type": "Snapshot", "snapshot": {}}),
    "a schedule": spec(refresh={"schedule": "*/15 2-4 * * mon-fri", "timeZone": "Europe/Berlin"}),
    "a schedule with a name": spec(refresh={"schedule": "@daily"}),
    "a pause": spec(desiredState="Paused", pause={"scope": "All"}),
    "no history": spec(throttle={"rowsPerSecond": 0}),
    "a limit with an end": spec(throttle={"rowsPerSecond": 5, "until": "2026-11-26T18:00:00+01:00"}),
    "a limit that is over": spec(throttle={"rowsPerSecond": 5, "until": "2020-01-01T00:00:00.5Z"}),
    "an automatic limit of a store": spec(source=source(path="s3a://lake/a"), throttle={"auto": {"storeErrors": 1, "query": {"url": "http://prometheus:9090", "expression": "up", "max": 5}, "floor": 1, "ceiling": 90}}),
    "an automatic limit": spec(throttle={"rowsPerSecond": 9, "auto": {"commitSeconds": 2, "floor": 1, "ceiling": 90}}),
    "bytes of files": spec(throttle={"rowsPerSecond": 5, "bytesPerSecond": 50_000_000}),
    "local mode": spec(executor={"instances": 0}),
    "executors by demand": spec(executor={"dynamic": {"min": 1, "max": 5}}),
    "executors by demand, by default": spec(executor={"dynamic": {}}),
    "as many at least as at most": spec(executor={"dynamic": {"min": 2, "max": 2}}),
    "any pod template": spec(
        driver={"template": {"spec": {"nodeSelector": {"disk": "fast"}, "unknown": [1, {"a": None}]}}}
    ),
    "Spark's settings": spec(spark={"conf": {"spark.sql.shuffle.partitions": "8", "spark.kubernetes.memoryOverheadFactor": "0.2"}}),
    "a setting that only names a secret": spec(spark={"conf": {"spark.hadoop.fs.s3a.security.credential.provider.path": "jceks://x", "spark.hadoop.fs.azure.account.oauth2.client.endpoint": "https://x"}}),
    "an account in a path": spec(source=source(path="abfss://container@account.dfs.core.windows.net/a"), target=target(path="/a:b@c")),
    "an even backoff": spec(backoff={"initialSeconds": 5, "maxSeconds": 5}),
    "no backoff": spec(backoff=None),
    "a backoff by half": spec(backoff={"maxSeconds": 20}),
    "a job id": spec(jobId="orders-2026"),
    "an order without a direction": spec(strategy={"type": "Snapshot", "snapshot": {"order": {"column": "at"}}}),
    "suspended": spec(suspend=True),
    "with approval": spec(approval="Manual"),
    "a topic": of_a_topic(),
    "a topic with everything": of_a_topic(
        topic(
            isolation="ReadUncommitted", startingOffsets="Latest", partitionStartingOffsets={"0": 5}, options={"client.id": "a"},
            secretRef="kafka", onBadRecord="Quarantine", quarantinePath="/data/bad",
        )
    ),
    "a deletion that keeps all": spec(deletionPolicy="Retain", target=target(table="shop.copy", path=None), ttlSecondsAfterFinished=5),
    "a deletion that releases": spec(deletionPolicy="Release", ttlSecondsAfterFinished=5, verify="None", target=target(existingRows="Keep", writeMode="Append")),
    "a deletion that drops": spec(deletionPolicy="Drop"),
    "a deletion that drops, of a topic": of_a_topic(deletionPolicy="Drop"),
    "an end and what follows": spec(
        after="Follow", verify="Final", activeDeadlineSeconds=60, ttlSecondsAfterFinished=0, retainDriver="Always"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Refused:
    """A manifest that breaks one rule."""

    given: dict
    path: str
    """Path of the field, as the server names it."""

    words: str
    """Message of the server."""


UNION = "must be set if and only if type is"
NO_USER = "path holds a user and a password: give credentials by env or envFrom of the templates, from a Secret"
PLACE = "give exactly one of path and table"

SCOPE_NEEDS = (
    "scope needs publish: WhenComplete or WhenVerified, existingRows: Refuse, filteredRows: Rewritten and after: Exit"
)

REFUSED = {
    "no source": Refused(spec(source=None), "spec.source", "Required value"),
    "no target": Refused(spec(target=None), "spec.target", "Required value"),
    "no member": Refused(spec(source={"type": "Delta"}), "spec.source", f"delta {UNION} Delta"),
    "no member of the target": Refused(spec(target={"type": "Delta"}), "spec.target", f"delta {UNION} Delta"),
    "another type": Refused(spec(source={"type": "Files"}), "spec.source.type", "Unsupported value"),
    "path and table": Refused(spec(source=source(table="shop.orders")), "spec.source.delta", PLACE),
    "neither path nor table": Refused(spec(source={"type": "Delta", "delta": {"key": ["id"]}}), "spec.source.delta", PLACE),
    "a target of path and table": Refused(spec(target=target(table="shop.copy")), "spec.target.delta", PLACE),
    "a target of neither": Refused(spec(target=target(path=None)), "spec.target.delta", PLACE),
    "an upsert without a key": Refused(spec(source={"type": "Delta", "delta": {"path": "/a"}}), "spec", "an Upsert target needs the key of the source"),
    "partitions and clusters": Refused(spec(target=target(partitionBy=["a"], clusterBy=["b"])), "spec.target.delta", "give at most one of partitionBy and clusterBy"),
    "kept rows and keys": Refused(spec(target=target(existingRows="Keep")), "spec", "existingRows: Keep needs writeMode Append or Changelog, or changesOnly: an Upsert target holds one row a key"),
    "kept rows and a receipt": Refused(spec(verify="Final", target=target(writeMode="Append", existingRows="Keep")), "spec", "verify: Final compares whole tables: not with a target's existingRows: Keep"),
    "rows that a MERGE needs, hidden": Refused(spec(strategy={"type": "Arrangement"}, target=target(publish="WhenComplete")), "spec", "publish: WhenComplete and WhenVerified work with strategy Replica or Snapshot"),
    "a scope of visible rows": Refused(spec(target=target(scope="day = 1")), "spec", SCOPE_NEEDS),
    "a scope that follows": Refused(spec(after="Follow", target=target(scope="day = 1", publish="WhenVerified")), "spec", SCOPE_NEEDS),
    "a scope of kept rows": Refused(spec(target=target(scope="day = 1", publish="WhenVerified", writeMode="Append", existingRows="Keep")), "spec", SCOPE_NEEDS),
    "a scope of hidden rows": Refused(spec(target=target(scope="day = 1", publish="WhenVerified", filteredRows="Hidden")), "spec", SCOPE_NEEDS),
    "hidden rows of a strategy that writes all rows": Refused(spec(strategy={"type": "Arrangement"}, target=target(filteredRows="Hidden")), "spec", "filteredRows: Hidden works with strategy Replica or Snapshot"),
    "a flip of a table without its name": Refused(spec(switch={"flip": {"type": "HiveTable"}}), "spec.switch.flip", "name belongs to the types HiveTable and View"),
    "a name that no flip changes": Refused(spec(switch={"flip": {"name": "sales.orders"}}), "spec.switch.flip", "name belongs to the types HiveTable and View"),
    "a flip by a command without one": Refused(spec(switch={"flip": {"type": "Command"}}), "spec.switch.flip", "command belongs to type Command"),
    "a schedule of four fields": Refused(spec(refresh={"schedule": "0 2 * *"}), "spec.refresh", "schedule has five fields: minute, hour, day of month, month, day of week"),
    "a schedule of a job that follows": Refused(spec(after="Follow", refresh={"schedule": "0 2 * * *"}), "spec", "refresh works with after: Exit"),
    "a schedule of a job that is deleted": Refused(spec(ttlSecondsAfterFinished=5, refresh={"schedule": "0 2 * * *"}), "spec", "refresh works without ttlSecondsAfterFinished"),
    "a schedule of a job that ends for good": Refused(spec(strategy={"type": "RearrangedChain"}, refresh={"schedule": "0 2 * * *"}), "spec", "refresh works with strategy Arrangement or Replica or Snapshot or SourceSplits"),
    "a switch-over of a job that ends": Refused(spec(switch={"when": "WhenVerified"}), "spec", "switch.when: WhenVerified switches over a job that follows its source: set after: Follow"),
    "another write mode": Refused(spec(target=target(writeMode="Overwrite")), "spec.target.delta.writeMode", "Unsupported value"),
    "another strategy": Refused(spec(strategy={"type": "Guess"}), "spec.strategy.type", "Unsupported value"),
    "another deletion": Refused(spec(deletionPolicy="Delete"), "spec.deletionPolicy", "Unsupported value"),
    "a drop of a result": Refused(spec(deletionPolicy="Drop", ttlSecondsAfterFinished=5), "spec", RESULT_GOES),
    "a drop of kept rows": Refused(spec(deletionPolicy="Drop", verify="None", target=target(existingRows="Keep", writeMode="Append")), "spec", ROWS_OF_OTHERS),
    "a drop of a name": Refused(spec(deletionPolicy="Drop", target=target(path=None, table="shop.copy")), "spec", NAME_STAYS),
    "a rate below zero": Refused(spec(throttle={"rowsPerSecond": -1}), "spec.throttle.rowsPerSecond", "greater than or equal to 0"),
    "an end without a limit": Refused(spec(throttle={"until": "2026-11-26T18:00:00Z"}), "spec", "throttle.until is the end of a limit, and the spec has none"),
    "an end without a time zone": Refused(spec(throttle={"rowsPerSecond": 5, "until": "2026-11-26T18:00:00"}), "spec.throttle.until", "should match"),
    "an end beyond the calendar": Refused(spec(throttle={"rowsPerSecond": 5, "until": "2026-02-30T18:00:00Z"}), "spec.throttle.until", "must be of type date-time"),
    "a floor above the ceiling": Refused(spec(throttle={"auto": {"commitSeconds": 1, "floor": 9, "ceiling": 5}}), "spec.throttle.auto", "floor must not exceed ceiling"),
    "an automatic limit without a target": Refused(spec(throttle={"auto": {"floor": 1, "ceiling": 5}}), "spec.throttle.auto", "needs a target: commitSeconds, lagSecondsMax, storeErrors or query"),
    "a lag of a strategy that copies first": Refused(spec(throttle={"auto": {"lagSecondsMax": 1, "floor": 1, "ceiling": 5}}), "spec", "throttle.auto.lagSecondsMax works with strategy Arrangement or SourceSplits"),
    "a query with a user": Refused(spec(throttle={"auto": {"query": {"url": "http://a:b@c", "expression": "up", "max": 1}, "floor": 1, "ceiling": 5}}), "spec.throttle.auto.query.url", "should match"),
    "bytes of a topic": Refused(of_a_topic() | {"throttle": {"bytesPerSecond": 5}}, "spec", "throttle.bytesPerSecond is a limit of the bytes of files: it works with source Delta"),
    "a rate with a fraction": Refused(spec(throttle={"rowsPerSecond": 0.5}), "spec.throttle.rowsPerSecond", "must be of type integer"),
    "a barrier too short": Refused(spec(barrier={"intervalMs": 1}), "spec.barrier.intervalMs", "greater than or equal to 100"),
    "a barrier too long": Refused(spec(barrier={"intervalMs": 600_000}), "spec.barrier.intervalMs", "less than or equal to 60000"),
    "another state": Refused(spec(desiredState="Sleeping"), "spec.desiredState", "Unsupported value"),
    "backoff upside down": Refused(spec(backoff={"initialSeconds": 60, "maxSeconds": 1}), "spec.backoff", "initialSeconds must not exceed maxSeconds"),
    "backoff above the default": Refused(spec(backoff={"initialSeconds": 601}), "spec.backoff", "initialSeconds must not exceed maxSeconds"),
    "executors in two ways": Refused(spec(executor={"instances": 1, "dynamic": {"min": 1, "max": 2}}), "spec.executor", "give at most one of instances and dynamic"),
    "more at least than at most": Refused(spec(executor={"dynamic": {"min": 5, "max": 2}}), "spec.executor.dynamic", "min must not exceed max"),
    "more at least than the default": Refused(spec(executor={"dynamic": {"min": 3}}), "spec.executor.dynamic", "min must not exceed max"),
    "a drain without end": Refused(spec(drainTimeoutSeconds=3601), "spec.drainTimeoutSeconds", "less than or equal to 3600"),
    "a password in a source": Refused(spec(source=source(path="s3a://KEY:SECRET@bucket/a")), "spec.source.delta", NO_USER),
    "a password in a target": Refused(spec(target=target(path="s3a://KEY:SECRET@bucket/a")), "spec.target.delta", NO_USER),
    "a secret in the conf": Refused(spec(spark={"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}), "spec.spark", "conf holds a secret: put it into a Secret, and name that in the templates' env or envFrom"),
    "a retry below zero": Refused(spec(backoffLimit=-1), "spec.backoffLimit", "greater than or equal to 0"),
    "text for a number": Refused(spec(backoffLimit="3"), "spec.backoffLimit", "must be of type integer"),
    "a topic and another member": Refused(of_a_topic(topic() | {"delta": DELTA}), "spec.source", f"delta {UNION} Delta"),
    "a topic without its member": Refused(of_a_topic({"type": "Kafka"}), "spec.source", f"kafka {UNION} Kafka"),
    "a changelog of a topic": Refused(of_a_topic(target=target(writeMode="Changelog")), "spec", "strategy SourceSplits does not write Changelog"),
    "an upsert of a topic without a key": Refused(of_a_topic(target=target(writeMode="Upsert")), "spec", "an Upsert target needs the key of the source"),
    "a quarantine without a path": Refused(of_a_topic(topic(onBadRecord="Quarantine")), "spec.source.kafka", "onBadRecord: Quarantine needs quarantinePath"),
    "a broker without a port": Refused(of_a_topic(topic(bootstrapServers="broker")), "spec.source.kafka", "bootstrapServers is a list of host:port, with commas"),
    "two topics": Refused(of_a_topic(topic(topic="a,b")), "spec.source.kafka", "topic is not the name of a topic"),
    "a password in an option": Refused(
        of_a_topic(topic(options={"sasl.jaas.config": "x"})), "spec.source.kafka", "options has a setting that a spec may not give; secrets come from secretRef"
    ),
    "an option that names a file": Refused(
        of_a_topic(topic(options={"client.id": "${dir:/etc/backfill-control:token}"})), "spec.source.kafka", "options refers to a file with ${"
    ),
    "a copy whose commits are marked as rewrites": Refused(spec(target=target(dataChange=False)), "spec", "dataChange: false is for strategy InPlace: each commit of other strategies adds rows"),
    "a path too long": Refused(spec(target=target(path="/" + "x" * 3000)), "spec.target.delta.path", "Too long"),
    "a blank path": Refused(spec(target=target(path="  ")), "spec.target.delta.path", "should match"),
}  # fmt: skip

CONF_RULE = next(rule for path, rule, _ in rules() if path == "spec.spark" and "startsWith" in rule)
_prefixes = re.findall(r"startsWith\('([^']+)'\)", CONF_RULE)
CONF_RESERVED = [name for name in re.findall(r"'([^']+)'", CONF_RULE) if name not in _prefixes] + [
    prefix + "anything" for prefix in _prefixes
]
"""Settings that belong to the operator, from the CRD's rule: one for each prefix."""

FILLING = "InPlace"
"""Strategy whose source and target are one table."""

STRATEGIES = SCHEMA["properties"]["strategy"]["properties"]["type"]["enum"]
TAKES_OUT = "takes all rows out when it begins anew: existingRows cannot be Keep"

OF_TOPICS = "SourceSplits"


def read_by(strategy):
    """Return the smallest spec whose source the strategy can read."""
    return of_a_topic() if strategy == OF_TOPICS else spec()


ACCEPTED |= {
    f"strategy {name}": read_by(name) | {"strategy": {"type": name, member_of(name): {}}}
    for name in STRATEGIES
    if name != FILLING
}
REFUSED |= {
    f"{name} of another source": Refused(
        (spec() if name == OF_TOPICS else of_a_topic()) | {"strategy": {"type": name}},
        "spec", f"strategy {name} works with source {'Kafka' if name == OF_TOPICS else 'Delta'}",
    )
    for name in STRATEGIES
}  # fmt: skip
REFUSED |= {
    f"{name}'s fields under another type": Refused(
        read_by(other) | {"strategy": {"type": other, member_of(name): {}}}, "spec.strategy", f"{member_of(name)} must be left out, unless type is {name}"
    )
    for name, other in zip(STRATEGIES, [*STRATEGIES[1:], STRATEGIES[0]], strict=True)
    if name != other
}  # fmt: skip
REFUSED |= {
    f"kept rows and {message.split()[1]}": Refused(
        spec(strategy={"type": message.split()[1]}, target=target(writeMode="Append", existingRows="Keep")),
        "spec",
        message,
    )
    for _, _, message in rules()
    if message.endswith(TAKES_OUT)
}
FOREIGN = {"S3://bucket/a": "s3a", "gcs://bucket/a": "gs", "az://container/a": "abfss"}
"""Locations with another tool's scheme, and Hadoop's scheme for the store."""

REFUSED |= {
    f"another tool's {path.partition(':')[0]} of {made.__name__}": Refused(
        given(made, path), f"spec.{where}", f"{field} has another tool's scheme for the store: write {scheme}://"
    )
    for path, scheme in FOREIGN.items()
    for made, where, field, given in (
        (source, "source.delta", "path", lambda made, path: spec(source=made(path=path))),
        (target, "target.delta", "path", lambda made, path: spec(target=made(path=path))),
        (topic, "source.kafka", "quarantinePath", lambda made, path: of_a_topic(made(quarantinePath=path))),
    )
}
REFUSED |= {
    f"a {where.split('.')[0]} at a path in the form of a name": Refused(
        made, f"spec.{where}", "table is a path in the form of a name: give it as path"
    )
    for where, made in (
        ("source.delta", spec(source={"type": "Delta", "delta": {"table": "delta.`/tmp/orders`", "key": ["id"]}})),
        ("target.delta", spec(target=target(path=None, table="delta.`s3a://bucket/orders`"))),
    )
}
NOT_COMPARED = "a receipt compares whole tables, and rows that never change are not copied"
REFUSED |= {
    "two starts": Refused(
        spec(source=source(version=3, timestamp="2026-11-26T18:00:00Z")),
        "spec.source.delta",
        "version and timestamp are two starts: remove one of them",
    ),
    **{
        f"changes without a snapshot and {field}": Refused(
            spec(source=source(changesOnly=True), **{field: value}, **more), "spec", message
        )
        for field, value, more, message in (
            ("strategy", {"type": "Replica"}, {}, "changesOnly works with strategy Snapshot"),
            ("verify", "Final", {}, f"verify: None is needed with changesOnly: {NOT_COMPARED}"),
            (
                "switch",
                {"when": "WhenVerified"},
                {"after": "Follow"},
                f"switch.when: WhenVerified does not work with changesOnly: {NOT_COMPARED}",
            ),
            (
                "target",
                target(publish="WhenComplete"),
                {},
                "publish and scope do not work with changesOnly: no snapshot is read",
            ),
        )
    },
    "columns that a snapshot follows": Refused(
        spec(source=source(schemaChange="Follow")), "spec", "schemaChange: Follow works with strategy Replica"
    ),
    "a relative folder of an origin": Refused(
        spec(source=source(allowFilesOutside=["/data/origin", "origin"])),
        "spec.source.delta",
        "allowFilesOutside takes absolute paths and URIs",
    ),
}
REFUSED |= {
    f"a replica with {field}": Refused(
        spec(strategy={"type": "Replica"}, target=target(**{field: value})), "spec",
        "strategy Replica lays the target out as the source: leave writeMode, partitionBy, clusterBy and existingRows: Keep out",
    )
    for field, value in {"writeMode": "Append", "partitionBy": ["a"], "existingRows": "Keep"}.items()
}  # fmt: skip
REFUSED |= {
    f"the operator's {name}": Refused(spec(spark={"conf": {"spark.a": "b", name: "x"}}), "spec.spark", "conf holds a setting that belongs to the operator")
    for name in CONF_RESERVED
}  # fmt: skip

ACCEPTED |= {
    f"temporary files with {', '.join(scratch)}": spec(scratch=scratch)
    for scratch in ({"size": "20Gi"}, {"size": "1T", "storageClassName": "fast"}, {"claimName": "scratch"})
} | {
    "an event log, a level and a web UI": spec(
        spark={"eventLog": {"path": "s3a://lake/events"}, "logLevel": "INFO", "ui": True}
    )
}
REFUSED |= {
    "a storage class without a size": Refused(spec(scratch={"storageClassName": "fast"}), "spec.scratch", "storageClassName needs size"),
    "a claim with a size": Refused(spec(scratch={"claimName": "a", "size": "1Gi"}), "spec.scratch", "claimName is an existing claim: remove size and storageClassName"),
} | {
    f"an event log of {path}": Refused(
        spec(spark={"eventLog": {"path": path}}), "spec.spark.eventLog", f"path has another tool's scheme for the store: write {scheme}://"
    )
    for path, scheme in FOREIGN.items()
}  # fmt: skip

OF_FILLING = f"strategy {FILLING}"
"""Start of the messages about columns that are filled."""


def filling(source=None, target=None, transform=None, params=None, **fields):
    """Return a spec that fills a column of a table, changed; `None` keeps a part."""
    place = {"path": "/data/a"}
    strategy = {"type": FILLING, **({} if params is None else {"inPlace": params})}
    return spec(
        source={"type": "Delta", "delta": place | (source or {})},
        target={"type": "Delta", "delta": place | (target or {})},
        transform=transform or {"set": {"norm": "upper(name)"}},
        strategy=strategy,
        **fields,
    )


ACCEPTED |= {
    "a column of the table": filling(),
    "rows of a column": filling(
        transform={"set": {"norm": "upper(name)"}, "setWhere": "id > 5"}, params={"writersSince": 7}, verify="Final"
    ),
    f"strategy {FILLING}": filling(params={}),
    "a limit of failed transactions of writers": filling(params={"maxWriterConflicts": 1}),
    "writers since a time": filling(params={"writersSinceTime": "2026-11-26T18:00:00Z"}),
}
REFUSED |= {
    "a drop of filled columns": Refused(filling(deletionPolicy="Drop"), "spec", FILLS),
    "a strategy without a column to fill": Refused(filling(transform={"where": "id > 5"}), "spec", f"transform.set and {OF_FILLING} need each other"),
    "a column to fill of a copy": Refused(spec(transform={"set": {"norm": "upper(name)"}}), "spec", f"transform.set and {OF_FILLING} need each other"),
    "a filter of filled rows": Refused(filling(transform={"set": {"norm": "upper(name)"}, "where": "id > 5"}), "spec", f"{OF_FILLING} takes transform.set, not select and where"),
    "a filled table that is followed": Refused(filling(after="Follow"), "spec", f"{OF_FILLING} follows no source: set after: Exit"),
    "a column of two tables": Refused(filling(target={"path": "/data/b"}), "spec", f"{OF_FILLING} fills one table: source and target must name the same one"),
    "a filled table with a mode": Refused(filling(target={"writeMode": "Append"}), "spec", f"{OF_FILLING} needs no writeMode, partitionBy, clusterBy, properties, scope of the target"),
    "a version of a filled table": Refused(filling(source={"version": 7}), "spec", f"{OF_FILLING} needs no version, timestamp, hold, allowFilesOutside of the source"),
    "a time of a filled table": Refused(filling(source={"timestamp": "2026-11-26T18:00:00Z"}), "spec", f"{OF_FILLING} needs no version, timestamp, hold, allowFilesOutside of the source"),
    "old versions of a filled table": Refused(filling(source={"hold": "Extend"}), "spec", f"{OF_FILLING} needs no version, timestamp, hold, allowFilesOutside of the source"),
    "a condition without a column": Refused(spec(transform={"setWhere": "id > 5"}), "spec.transform", "transform.setWhere is the condition of transform.set, and the spec has none"),
    "two starts of writers": Refused(filling(params={"writersSince": 7, "writersSinceTime": "2026-11-26T18:00:00Z"}), "spec.strategy.inPlace", "give at most one of writersSince and writersSinceTime"),
}  # fmt: skip
