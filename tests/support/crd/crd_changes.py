"""Changes of an existing spec that the CRD refuses, and changes that it accepts."""

from dataclasses import dataclass

from support.crd.crd_rows import ACCEPTED
from support.crd.crd_specs import of_a_topic, rules, source, spec


@dataclass(frozen=True)
class Change:
    """A change of an existing spec, as a merge patch; `path` and `words` describe the rejection."""

    change: dict
    path: str = ""
    words: str = ""
    before: dict | None = None

    @property
    def begins(self):
        """Return the existing spec before it."""
        return self.before or spec()


SAME_SOURCE = next(message for path, _, message in rules() if path == "spec.source" and "immutable" in message)
SAME_STRATEGY = next(message for path, _, message in rules() if path == "spec.strategy" and "immutable" in message)

CHANGES = {
    "the source": Change({"source": {"delta": {"path": "/data/other"}}}, "spec.source", SAME_SOURCE),
    "a path for a table": Change({"source": {"delta": {"path": None, "table": "a.b"}}}, "spec.source", SAME_SOURCE),
    "the table": Change({"source": {"delta": {"table": "a.c"}}}, "spec.source", SAME_SOURCE, before=ACCEPTED["a table by name"]),
    "the key": Change({"source": {"delta": {"key": ["other"]}}}, "spec.source", SAME_SOURCE),
    "the version": Change({"source": {"delta": {"version": 9}}}, "spec.source", SAME_SOURCE),
    "no version": Change({"source": {"delta": {"version": None}}}, "spec.source", SAME_SOURCE, before=spec(source=source(version=7))),
    "the topic": Change({"source": {"kafka": {"topic": "other"}}}, "spec.source", SAME_SOURCE, before=of_a_topic()),
    "the isolation": Change({"source": {"kafka": {"isolation": "ReadUncommitted"}}}, "spec.source", SAME_SOURCE, before=of_a_topic()),
    "the target": Change({"target": {"delta": {"path": "/data/other"}}}, "spec.target", "target is immutable: make a new Backfill"),
    "the write mode": Change({"target": {"delta": {"writeMode": "Append"}}}, "spec.target", "target is immutable: make a new Backfill"),
    "the transform": Change({"transform": {"where": "id > 5"}}, "spec.transform", "transform is immutable: make a new Backfill"),
    "no transform": Change({"transform": None}, "spec.transform", "transform is immutable: make a new Backfill", before=spec(transform={"where": "id > 5"})),
    "the strategy": Change({"strategy": {"snapshot": {"vnodes": 5}}}, "spec.strategy", SAME_STRATEGY),
    "the strategy in part": Change({"strategy": {"snapshot": {"vnodes": 5, "maxInFlight": 1}}}, "spec.strategy", SAME_STRATEGY, before=spec(strategy={"snapshot": {"vnodes": 7}})),
    "the job's id": Change({"jobId": "another"}, "spec", "jobId is immutable: make a new Backfill"),
    "another id": Change({"jobId": "another"}, "spec", "jobId is immutable: make a new Backfill", before=spec(jobId="one")),
    "no id": Change({"jobId": None}, "spec", "jobId is immutable: make a new Backfill", before=spec(jobId="one")),
}  # fmt: skip

MAY_CHANGE = {
    "the state": Change({"desiredState": "Paused"}),
    "the limit": Change({"throttle": {"rowsPerSecond": 5}}),
    "the hint of SchemaChanged": Change({"source": {"delta": {"schemaChange": "Ignore"}}}),
    "the hold of the source": Change({"source": {"delta": {"hold": "Extend"}}}),
    "the folder of an origin": Change({"source": {"delta": {"allowFilesOutside": ["/data/origin"]}}}),
    "the brokers": Change({"source": {"kafka": {"bootstrapServers": "other:9092"}}}, before=of_a_topic()),
    "what becomes of bad records": Change(
        {"source": {"kafka": {"onBadRecord": "Quarantine", "quarantinePath": "/data/bad"}}}, before=of_a_topic()
    ),
    "the pace": Change({"strategy": {"snapshot": {"maxInFlight": 1, "changeBatchSeconds": 5}}}),
    "the order": Change({"strategy": {"snapshot": {"order": {"column": "at", "direction": "Ascending"}}}}),
    "the pace back": Change({"strategy": None}, before=spec(strategy={"snapshot": {"maxInFlight": 1}})),
    "what pods are like": Change({"driver": {"resources": {"limits": {"memory": "3Gi"}}}}),
    "the approval": Change({"approved": True}),
    "the plan that is approved": Change({"approvedPlan": "0123456789abcdef"}),
    "the end of one with everything": Change(
        {"suspend": True},
        before=spec(jobId="one", transform={"where": "id > 5"}, strategy={"type": "Snapshot", "snapshot": {}}),
    ),
}
