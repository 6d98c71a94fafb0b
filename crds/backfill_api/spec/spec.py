"""The spec of a Backfill. Durations and rates are integers with the unit in their name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from backfill_api.model import Model, cel, member_of, refused, unchanged
from backfill_api.names import API_VERSION, DEFAULT_NAMESPACE, KIND
from backfill_api.spec import combinations
from backfill_api.spec import session_conf as meaning
from backfill_api.spec.auto_throttle import SpecThrottle
from backfill_api.spec.bounds import DAY_S, Drain, Name, PlanName, QueueName, Seconds
from backfill_api.spec.end_of_life.deletion import DeletionPolicy, check_deletion, deletion_rules
from backfill_api.spec.order import Dependencies
from backfill_api.spec.override import PauseSpec
from backfill_api.spec.params import Params, SourceAbility
from backfill_api.spec.pods import Backoff, DriverSpec, ExecutorSpec, ScratchSpec, SparkSpec
from backfill_api.spec.schedules.refresh import RefreshSpec, check_refresh, refresh_rules
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.switch import SwitchSpec, check_switch, switch_rules
from backfill_api.spec.targets import Target
from backfill_api.spec.transforms.filling import check_filling, filling_rules, fills
from backfill_api.spec.transforms.transform import TransformSpec
from backfill_api.status.status import BackfillStatus

UNTIL_ALONE = "is the end of a limit, and the spec has none"


class Barrier(Model):
    """Interval of barriers, and which of them commit."""

    interval_ms: Annotated[StrictInt, Field(ge=100, le=60_000)] = 1000
    """Milliseconds between barriers."""

    commit_every: Annotated[StrictInt, Field(ge=1, le=3600)] = 1
    """Commit at every n-th barrier only; for targets where a commit at each barrier is too many."""


def _upserts() -> str:
    """Return the CEL expression that the target holds one row a key."""
    names = [f"self.target.{member_of(name)}" for name in Target.VARIANTS]
    mode = "(has({target}.writeMode) ? {target}.writeMode == 'Upsert' : {other})"
    other = f"!(self.source.type in {combinations.OF_OFFSETS})"
    shipping = [name for name, variant in Strategy.VARIANTS.items() if combinations.ships(variant) or fills(variant)]
    other += f" && !(self.strategy.type in {shipping})" if shipping else ""
    return " || ".join(f"(has({target}) && {mode.format(target=target, other=other)})" for target in names)


def _target_with(field: str, value: str) -> str:
    """Return the CEL expression that requires a value in a field that all targets have."""
    names = [f"self.target.{member_of(name)}" for name in Target.VARIANTS]
    return " || ".join(f"(has({name}) && {name}.{field} == '{value}')" for name in names)


def _keyed(end: str, variants: Iterable[str]) -> str:
    """Return the CEL expression that requires the source or the target to have key columns."""
    names = [f"self.{end}.{member_of(name)}" for name in variants]
    return " || ".join(f"(has({name}) && has({name}.key) && {name}.key.size() > 0)" for name in names)


class BackfillSpec(Model):
    """Source, target, transform, strategy and speed of a backfill."""

    model_config = cel(
        (unchanged("jobId"), "jobId is immutable: make a new Backfill"),
        (
            f"!({_upserts()}) || {_keyed('target', Target.VARIANTS)} || {_keyed('source', Source.VARIANTS)}",
            "an Upsert target needs the key of the source",
        ),
        (
            f"!({_target_with('existingRows', 'Keep')}) || !({_upserts()}) || {combinations.changes_only()}",
            "existingRows: Keep needs writeMode Append or Changelog, or changesOnly: an Upsert target holds one row a key",
        ),
        (
            f"self.verify == 'None' || !({_target_with('existingRows', 'Keep')})",
            "verify: Final compares whole tables: not with a target's existingRows: Keep",
        ),
        (
            "!has(self.throttle) || !has(self.throttle.until) || has(self.throttle.rowsPerSecond) || has(self.throttle.bytesPerSecond)",
            f"throttle.until {UNTIL_ALONE}",
        ),
        *combinations.rules(),
        *filling_rules(),
        *refresh_rules(),
        *switch_rules(),
        *deletion_rules(),
    )

    job_id: Name | None = None
    """Identity of the job's state in the target; default: `<namespace>/<name>`."""

    source: Source
    """Source of the rows."""

    transform: TransformSpec = TransformSpec()
    """Transform of each row."""

    target: Target
    """Target of the rows."""

    strategy: Strategy = Strategy()
    """Strategy of the backfill; all give the same result."""

    barrier: Barrier = Barrier()
    """Interval of barriers, and which of them commit."""

    throttle: SpecThrottle = SpecThrottle()
    """Limit of the snapshot's speed; changes are never limited."""

    pause: PauseSpec = PauseSpec()
    """Scope of `desiredState: Paused`."""

    desired_state: Literal["Running", "Paused"] = "Running"
    """`Paused`: the driver pauses at a barrier and keeps its pods."""

    suspend: StrictBool = False
    """Delete the pods; a later attempt continues from the state in the target."""

    priority: Annotated[StrictInt, Field(ge=-1_000_000, le=1_000_000)] = 0
    """Order of waiting for a driver under the operator's limits: the higher one starts first. It ends no driver."""

    queue: QueueName | None = None
    """LocalQueue of Kueue that admits the driver and its executors together; default: none. Kueue's own priority of the job is `priority`."""

    depends_on: Dependencies = ()
    """Backfills of this namespace that must reach a condition before the first attempt."""

    after: Literal["Exit", "Follow"] = "Exit"
    """Behaviour after catching up: end (`Exit`), or keep applying changes (`Follow`)."""

    verify: Literal["None", "Final", "FinalByRows"] = "None"
    """`Final`: compare source and target at the end, copied files by their bytes; `FinalByRows`: all by rows. Fail when they differ."""

    switch: SwitchSpec = SwitchSpec()
    """Switch-over of readers and writers to the target."""

    refresh: RefreshSpec | None = None
    """Times at which a finished job runs again, from its last position; default: only when it is requested."""

    approval: Literal["Automatic", "Manual"] = "Automatic"
    """`Manual`: stop after the plan until `approved` is true, or `approvedPlan` names the plan."""

    approved: StrictBool = False
    """Approval of the plan that exists when the field is set. An edit of a planned field leads to a new plan, which needs a new approval."""

    approved_plan: PlanName | None = None
    """Continue after the plan of this name (`status.planOf`) and after no other one, whatever `approved` says."""

    backoff_limit: Annotated[StrictInt, Field(ge=0, le=1000)] = 3
    """Number of attempts after the first that may fail."""

    backoff: Backoff = Backoff()
    """Wait between attempts."""

    active_deadline_seconds: Seconds | None = None
    """End the job after this long; default: never."""

    startup_timeout_seconds: Seconds = 600
    """End an attempt that does not start within this time."""

    ttl_seconds_after_finished: Annotated[StrictInt, Field(ge=0, le=3650 * DAY_S)] | None = None
    """Delete the object this long after its end; default: never. A switch-over that fences the source prevents it, unless deletionPolicy: Release completes it."""

    deletion_policy: DeletionPolicy = "Drain"
    """End of a deleted job. `Retain`, and `Drain`, its earlier name: the driver stops at a barrier, and the source gets its own retention
    back. `Release`: also, the job's state leaves the target, and its fence of the source is lifted. `Drop`: the target is removed, as by
    `backfill drop`. `Immediate`: none of it. docs/kubernetes.md has the details."""

    drain_timeout_seconds: Drain = 60
    """Maximum duration of a drain; a node that is drained waits this long for the driver."""

    retain_driver: Literal["Always", "OnFailure", "Never"] = "OnFailure"
    """Retention of the driver pod after its end. A pod with another running container is deleted after 10 minutes."""

    spark: SparkSpec = SparkSpec()
    """Spark on a cluster."""

    driver: DriverSpec = DriverSpec()
    """The driver pod."""

    executor: ExecutorSpec = ExecutorSpec()
    """The executor pods."""

    scratch: ScratchSpec = ScratchSpec()
    """Volume for the temporary files of driver and executors; default: the node's disk without a limit."""

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the target that identify a row: `target.delta.key`, else the source's key."""
        return self.target.params.key or self.source.params.key

    @property
    def write_mode(self) -> Literal["Upsert", "Append", "Changelog"]:
        """Write mode of the target; default: `Append` for offsets or whole files, `Upsert` otherwise."""
        strategy = self.strategy.variant
        offsets = SourceAbility.OFFSETS in self.source.variant.abilities
        appends = offsets or combinations.ships(strategy) or fills(strategy)
        return self.target.params.write_mode or ("Append" if appends else "Upsert")

    @model_validator(mode="after")
    def _works_together(self) -> Self:
        combinations.check_combination(self.source, self.target, self.strategy, self.write_mode)
        check_filling(self.source, self.target, self.strategy, self.transform, after=self.after, key=self.key)
        combinations.check_scope(self.target, self.after)
        combinations.check_changes_only(self.source, self.target, self.strategy, self.verify, self.switch.when)
        if self.throttle.bytes_per_second is not None:
            combinations.check_knows_bytes(self.source)
        if self.throttle.auto is not None:
            combinations.check_throttle_auto(self.throttle.auto, self.source, self.target, self.strategy)
        if self.throttle.until is not None and not self.throttle.limited:
            hint = "add throttle.rowsPerSecond or throttle.bytesPerSecond, or remove it"
            raise refused("throttle.until", UNTIL_ALONE, hint=hint, value=self.throttle.until)
        return self

    @model_validator(mode="after")
    def _fits_its_end(self) -> Self:
        ttl = self.ttl_seconds_after_finished
        if self.refresh is not None:
            check_refresh(self.refresh, self.strategy, after=self.after, ttl_seconds=ttl)
        check_switch(self.switch, self.after)
        check_deletion(self.deletion_policy, self.target, self.strategy.type, ttl_seconds=ttl)
        return self

    @model_validator(mode="after")
    def _upsert_has_key(self) -> Self:
        if self.write_mode == "Upsert" and not self.key:
            mode = f"target.{self.target.member}.writeMode"
            hint = f"name the columns that identify a row, as [order_id], or set {mode}: Append or Changelog"
            raise refused(
                f"source.{self.source.member}.key", "is required, because the target's writeMode is Upsert", hint=hint
            )
        return self

    @model_validator(mode="after")
    def _keeps_no_row_of_a_key(self) -> Self:
        kept = self.target.params.existing_rows == "Keep" and not self.source.params.skips_snapshot
        if self.write_mode == "Upsert" and kept:
            message = "an Upsert target holds one row a key, and a kept row may share its key with a new one"
            hint = "set writeMode: Append or Changelog, or use an empty target"
            raise refused(f"target.{self.target.member}.existingRows", message, hint=hint, value="Keep")
        return self

    @model_validator(mode="after")
    def _verified_alone(self) -> Self:
        if self.verify != "None" and self.target.params.existing_rows == "Keep":
            field = f"target.{self.target.member}.existingRows"
            message = f"a receipt compares whole tables, and rows that are kept ({field}) are not in the source"
            raise refused("verify", message, hint="set verify: None, or use an empty target", value=self.verify)
        return self


class Metadata(Model):
    """Name and namespace; the fields that a cluster adds are accepted and not read."""

    name: Annotated[str, StringConstraints(strict=True, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
    """Name of the Backfill: lower-case letters, digits, `-` and `.`."""

    namespace: Annotated[
        str, StringConstraints(strict=True, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = DEFAULT_NAMESPACE
    """Namespace of the Backfill."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    uid: str | None = None
    generation: int | None = None
    resource_version: str | None = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None
    generate_name: str | None = None
    owner_references: tuple[dict[str, Any], ...] | None = None
    managed_fields: tuple[dict[str, Any], ...] | None = None
    self_link: str | None = None


class BackfillResource(Model):
    """Fills a table from another one that keeps changing: exactly once, sealed every second, under control."""

    api_version: Literal["backfill.dev/v1alpha1"] = API_VERSION
    kind: Literal["Backfill"] = KIND
    metadata: Metadata
    spec: BackfillSpec
    """The desired state."""

    status: BackfillStatus | None = None
    """The observed state; written by the operator."""

    @property
    def job_id(self) -> str:
        """Identity of the job's state in the target."""
        return self.spec.job_id or f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def spec_hash(self) -> str:
        """Hash of the fields that must not change while a state of this job exists."""
        return spec_hash(self.spec, self.job_id)

    @property
    def spec_hash_before_conf(self) -> str:
        """The hash that earlier releases stored, in which `spark.conf` had no part."""
        return _hashed(_identity(self.spec, self.job_id, conf=False))

    @property
    def spec_fields(self) -> dict[str, str]:
        """Hash of each field of `spec_hash`, by its path."""
        return spec_fields(self.spec, self.job_id)


def spec_hash(spec: BackfillSpec, job_id: str) -> str:
    """Hash the fields that must not change while a state exists: job, source, transform, target, strategy, session settings.

    Fields that may change (`Params.MAY_CHANGE`) and fields with their defaults are excluded: a field that
    a later version adds does not invalidate the states of this version.

    Returns:
        SHA-256, 64 hexadecimal digits.
    """
    return _hashed(_identity(spec, job_id))


def _hashed(identity: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(identity).encode()).hexdigest()


def spec_fields(spec: BackfillSpec, job_id: str) -> dict[str, str]:
    """Hash each field of `spec_hash`, by its path: the hashes tell which field differs, without its value.

    Returns:
        The first 12 hexadecimal digits of SHA-256 by path; fields that hold their defaults are left out.
    """
    hashes: dict[str, str] = {}
    for name, part in _identity(spec, job_id).items():
        _hash_fields(f"spec.{name}", part, hashes)
    return {_place(name, spec): digest for name, digest in hashes.items()}


def _place(name: str, spec: BackfillSpec) -> str:
    """Return the path that a document has for a field of the hash."""
    if name == "spec.target.key":
        return f"spec.target.{spec.target.member}.key"
    if name.startswith("spec.conf."):
        return name.replace("spec.conf.", "spec.spark.conf.", 1)
    if name.startswith("spec.strategy.") and name != "spec.strategy.type":
        return name.replace("spec.strategy.", f"spec.strategy.{spec.strategy.member}.", 1)
    return name


def _hash_fields(path: str, part: Any, hashes: dict[str, str]) -> None:
    # A field with names that the user chooses is one field, so that the state does not grow with it.
    if isinstance(part, dict) and not path.endswith(".properties"):
        for name, below in part.items():
            _hash_fields(f"{path}.{name}", below, hashes)
        return
    hashes[path] = hashlib.sha256(_canonical(part).encode()).hexdigest()[:12]


def _identity(spec: BackfillSpec, job_id: str, *, conf: bool = True) -> dict[str, Any]:
    source, target, strategy = spec.source, spec.target, spec.strategy
    # Which parts name their type, and where a key stands, is as the first release stored it.
    target_type = {} if target.variant.default else {"type": target.type}
    table = _lasting(target.params, "key", "write_mode") | _mode(spec)
    document: dict[str, Any] = {
        "jobId": job_id,
        "source": {"type": source.type, source.member: _lasting(source.params)},
        "transform": _written(spec.transform),
        "target": target_type | {target.member: table, "key": list(spec.key)},
        "strategy": {"type": strategy.type} | _lasting(strategy.params),
    }
    if conf and (given := meaning.given(spec.spark.conf)):
        document["conf"] = given
    return document


def _mode(spec: BackfillSpec) -> dict[str, Any]:
    """Return the write mode as states have it, written or not: `Upsert` is left out; the default of a target's own was, too."""
    params = spec.target.params
    own = type(params).model_fields["write_mode"].default
    return {} if spec.write_mode == (own or "Upsert") else {"writeMode": spec.write_mode}


def _canonical(part: Any) -> str:
    return json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _lasting(params: Params, *elsewhere: str) -> dict[str, Any]:
    return _written(params, params.MAY_CHANGE.union(elsewhere))


def _written(model: Model, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude=set(left_out))
