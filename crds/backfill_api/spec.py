"""What a Backfill asks for. Durations and rates are integers with the unit in their name."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, StrictBool, StrictInt, model_validator

from backfill_api.model import Model
from backfill_api.names import API_VERSION, KIND

Column = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255)]
Columns = Annotated[tuple[Column, ...], Field(max_length=64)]
Sql = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=8192)]
Path = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=2048)]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=253)]


def _int(low: int, high: int) -> Any:
    return Annotated[StrictInt, Field(ge=low, le=high)]


Seconds = _int(1, 7 * 24 * 3600)
Version = _int(0, 2**53)
Rate = _int(0, 1_000_000_000)


class DeltaSourceSpec(Model):
    """A Delta table that keeps changing."""

    path: Path | None = None
    """Folder or URI of the table; give this or `table`."""

    table: Name | None = None
    """Name in the catalog; give this or `path`."""

    key: Columns = ()
    """Columns that identify a row; needed by `Upsert` targets."""

    order_by: Columns = ()
    """Order of an arrangement backfill; default: the key."""

    version: Version | None = None
    """Version that the snapshot is read from; default: the newest when the job first starts."""

    schema_change: Literal["Fail", "Ignore"] = "Fail"
    """What to do when a column is added while the job runs; anything else always fails."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        return _one_of(self, "path", "table")


class KafkaSourceSpec(Model):
    """A Kafka topic."""

    bootstrap_servers: Name
    """Brokers, `host:port,host:port`."""

    topic: Name
    """The topic."""

    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    """Where history begins."""

    options: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Further options of the Kafka client."""

    secret_ref: Name | None = None
    """Secret with client options."""


class Source(Model):
    """Where rows come from."""

    type: Literal["Delta", "Kafka"]
    """Which member is set."""

    delta: DeltaSourceSpec | None = None
    """A Delta table."""

    kafka: KafkaSourceSpec | None = None
    """A Kafka topic."""

    @model_validator(mode="after")
    def _union(self) -> Self:
        return _member(self, "delta", "kafka")


class TransformSpec(Model):
    """A row-wise, deterministic transform; default: all rows and columns as they are."""

    select: Annotated[tuple[Sql, ...], Field(max_length=512)] = ()
    """SQL expressions, one a column; empty: all columns."""

    where: Sql | None = None
    """SQL condition; a row that fails it is not in the target."""


class DeltaTarget(Model):
    """The Delta table that is filled."""

    path: Path | None = None
    """Folder or URI of the table; give this or `table`."""

    table: Name | None = None
    """Name in the catalog; give this or `path`."""

    write_mode: Literal["Upsert", "Append", "Changelog"] = "Upsert"
    """`Upsert`: one row a key. `Append`: sources that only append. `Changelog`: every change as a row."""

    key: Columns = ()
    """Key in terms of the target; default: the source's key."""

    partition_by: Columns = ()
    """Partition columns, when the table is made."""

    cluster_by: Columns = ()
    """Clustering columns, when the table is made."""

    properties: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Table properties, when the table is made."""

    existing_rows: Literal["Refuse", "Keep"] = "Refuse"
    """What to do with a table that has rows and no state of this job."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        return _one_of(self, "path", "table")


class Target(Model):
    """Where rows go."""

    type: Literal["Delta"] = "Delta"
    """Which member is set."""

    delta: DeltaTarget
    """A Delta table."""


class SnapshotParams(Model):
    """One pinned version in splits, then its changes."""

    vnodes: _int(1, 32768) = 256
    """Hash partitions of the key space; the unit of verification."""

    split_target_seconds: _int(1, 600) = 4
    """How long one split should take at full speed."""

    max_in_flight: _int(1, 64) = 2
    """Splits that are read at the same time."""

    change_batch_seconds: _int(1, 3600) = 10
    """How long one batch of changes should take."""


class ArrangementParams(Model):
    """Live rows visible during the backfill."""

    vnodes: _int(1, 32768) = 256
    """Hash partitions of the key space."""

    max_read_amplification: _int(1, 1000) = 4
    """Refuse when chunks would read the files of the source more often than this."""


class RearrangedChainParams(Model):
    """Snapshot, then changes, barriers overtaking; not resumable."""

    max_queued_versions: _int(1, 100_000) = 1000
    """Bound of the queue."""


class SourceSplitsParams(Model):
    """Kafka partitions: history and live side by side."""

    max_records_per_range: _int(1, 100_000_000) = 1_000_000
    """Bound of one range read."""


class Strategy(Model):
    """How the backfill is done; of the result it changes nothing."""

    type: Literal["Snapshot", "Arrangement", "RearrangedChain", "SourceSplits"] = "Snapshot"
    """Which member applies; a member that is left out has its defaults."""

    snapshot: SnapshotParams = SnapshotParams()
    """Parameters of `Snapshot`."""

    arrangement: ArrangementParams = ArrangementParams()
    """Parameters of `Arrangement`."""

    rearranged_chain: RearrangedChainParams = RearrangedChainParams()
    """Parameters of `RearrangedChain`."""

    source_splits: SourceSplitsParams = SourceSplitsParams()
    """Parameters of `SourceSplits`."""


class Barrier(Model):
    """The pace of barriers."""

    interval_ms: _int(100, 60_000) = 1000
    """Milliseconds between barriers."""

    seal_every: _int(1, 3600) = 1
    """Commit at every n-th barrier only, where one commit an interval is too many."""


class ThrottleSpec(Model):
    """Limit of history."""

    rows_per_second: Rate | None = None
    """Rows a second; absent: unlimited, 0: history is not read."""


class PauseSpec(Model):
    """What `desiredState: Paused` pauses."""

    scope: Literal["History", "All"] = "History"
    """`History`: changes are still applied. `All`: nothing is."""


class Backoff(Model):
    """Waiting between attempts."""

    initial_seconds: Seconds = 10
    """Before the second attempt; doubled for each further one."""

    max_seconds: Seconds = 600
    """At most."""


class SparkSpec(Model):
    """Spark of the driver and its executors, on a cluster."""

    image: Name | None = None
    """Container image."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When to pull it."""

    conf: dict[str, str] = Field(default_factory=dict, max_length=256)
    """Spark settings."""


class DriverSpec(Model):
    """The driver pod."""

    template: dict[str, Any] = Field(default_factory=dict)
    """Pod template, merged under what the operator sets."""

    resources: dict[str, Any] = Field(default_factory=dict)
    """Container resources."""

    service_account_name: Name | None = None
    """Service account."""


class DynamicExecutors(Model):
    """Executors by demand."""

    min: _int(0, 10_000) = 0
    """At least."""

    max: _int(1, 10_000) = 2
    """At most."""


class ExecutorSpec(Model):
    """The executor pods."""

    instances: _int(0, 10_000) | None = None
    """A fixed number; 0: local mode inside the driver."""

    dynamic: DynamicExecutors | None = None
    """By demand instead."""

    template: dict[str, Any] = Field(default_factory=dict)
    """Pod template."""

    resources: dict[str, Any] = Field(default_factory=dict)
    """Container resources."""


class BackfillSpec(Model):
    """What is filled from what, how, and how fast."""

    job_id: Name | None = None
    """Identity of the state kept in the target; default: namespace/name."""

    source: Source
    """Where rows come from."""

    transform: TransformSpec = TransformSpec()
    """What becomes of each row."""

    target: Target
    """Where rows go."""

    strategy: Strategy = Strategy()
    """How it is done."""

    barrier: Barrier = Barrier()
    """The pace of barriers."""

    throttle: ThrottleSpec = ThrottleSpec()
    """Limit of history."""

    pause: PauseSpec = PauseSpec()
    """What a pause holds."""

    desired_state: Literal["Running", "Paused"] = "Running"
    """A paused driver stays, at a barrier."""

    suspend: StrictBool = False
    """Release the pods; resume later from the target's own state."""

    after: Literal["Exit", "Follow"] = "Exit"
    """When caught up: end, or go on applying changes."""

    verify: Literal["None", "Final"] = "None"
    """Take a receipt at the end."""

    approval: Literal["Automatic", "Manual"] = "Automatic"
    """`Manual`: stop after the plan until `approved`."""

    approved: StrictBool = False
    """Go on after the plan."""

    backoff_limit: _int(0, 1000) = 3
    """Attempts after the first that may fail."""

    backoff: Backoff = Backoff()
    """Waiting between attempts."""

    active_deadline_seconds: Seconds | None = None
    """End the job after this long."""

    startup_timeout_seconds: Seconds = 600
    """End an attempt that does not start."""

    ttl_seconds_after_finished: _int(0, 10 * 365 * 24 * 3600) | None = None
    """Delete the object this long after its end; off by default."""

    deletion_policy: Literal["Drain", "Immediate"] = "Drain"
    """`Drain`: stop at a barrier first."""

    drain_timeout_seconds: Seconds = 60
    """How long a drain may take."""

    retain_driver: Literal["Always", "OnFailure", "Never"] = "OnFailure"
    """Keep the driver pod after its end."""

    spark: SparkSpec = SparkSpec()
    """Spark on a cluster."""

    driver: DriverSpec = DriverSpec()
    """The driver pod."""

    executor: ExecutorSpec = ExecutorSpec()
    """The executor pods."""

    @model_validator(mode="after")
    def _upsert_has_key(self) -> Self:
        target, source = self.target.delta, self.source.delta
        if target.write_mode == "Upsert" and not target.key and not (source and source.key):
            raise ValueError("source.delta.key: an Upsert target needs a key; name the columns that identify a row")
        return self


class Metadata(Model):
    """Name and namespace; other fields of Kubernetes metadata are carried along."""

    model_config = {**Model.model_config, "extra": "allow"}
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
    """DNS subdomain."""

    namespace: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = "default"
    """Namespace."""


class Backfill(Model):
    """A backfill: this source, this transform, this target, this strategy, this speed."""

    api_version: Literal["backfill.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["Backfill"] = KIND  # type: ignore[assignment]
    metadata: Metadata
    spec: BackfillSpec
    status: dict[str, Any] | None = None

    @property
    def job_id(self) -> str:
        """Identity of the state in the target."""
        return self.spec.job_id or f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def spec_hash(self) -> str:
        """Hash of what must not change while a state exists: job, source, transform, target, strategy type.

        Numbers that only change the pace (split seconds, slots) are not in it.
        """
        spec = self.spec
        document = {
            "jobId": self.job_id,
            "source": spec.source.model_dump(mode="json", by_alias=True, exclude_none=True),
            "transform": spec.transform.model_dump(mode="json", by_alias=True, exclude_none=True),
            "target": spec.target.model_dump(mode="json", by_alias=True, exclude_none=True),
            "strategy": spec.strategy.type,
        }
        delta = document["source"].get("delta", {})
        for policy in ("schemaChange", "version"):
            delta.pop(policy, None)
        document["target"]["delta"].pop("existingRows", None)
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _one_of(model: Any, *names: str) -> Any:
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        raise ValueError(f"{names[0]}: give exactly one of {' or '.join(names)}")
    return model


def _member(model: Any, *names: str) -> Any:
    wanted = model.type.lower()
    if getattr(model, wanted) is None:
        raise ValueError(f"{wanted}: is required, because type is {model.type}")
    for name in names:
        if name != wanted and getattr(model, name) is not None:
            raise ValueError(f"{name}: must be left out, because type is {model.type}")
    return model
