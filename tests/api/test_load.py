"""Loading a Backfill from YAML: an error names the field, its value and a hint."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_api.load import FieldError, SpecError, load_backfill
from backfill_api.spec.pods import CONF_RESERVED, CONF_RESERVED_PREFIXES
from backfill_api.spec.spec import BackfillResource

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

VALID = """\
apiVersion: backfill.dev/v1alpha1
kind: Backfill
metadata: {name: orders}
spec:
  source: {type: Delta, delta: {path: ./orders, key: [order_id]}}
  target: {type: Delta, delta: {path: ./copy}}
"""

REMOVED = object()


def changed(*path: str | int, to: object) -> dict[str, Any]:
    """Return the valid document with one field set or removed."""
    document = copy.deepcopy(yaml.safe_load(VALID))
    here = document
    for part in path[:-1]:
        here = here.setdefault(part, {})
    if to is REMOVED:
        del here[path[-1]]
    else:
        here[path[-1]] = to
    return document  # type: ignore[no-any-return]


def errors_of(source: Any) -> tuple[FieldError, ...]:
    """Return the errors of a document, empty if it is valid."""
    try:
        load_backfill(source)
    except SpecError as error:
        return error.errors
    return ()


def refusal(source: Any) -> FieldError:
    """Return the only error of a document."""
    (error,) = errors_of(source)
    return error


class TestAValidDocument:
    """An omitted field has its documented default, and a dumped document loads again."""

    def test_omitted_fields_have_the_documented_defaults(self) -> None:
        """They are API: a changed default changes running jobs."""
        backfill = load_backfill(VALID)

        spec = backfill.spec
        assert backfill.job_id == "default/orders"
        assert (spec.barrier.interval_ms, spec.barrier.commit_every) == (1000, 1)
        assert (spec.strategy.type, spec.strategy.params.vnodes) == ("Snapshot", 256)
        assert spec.strategy.params.split_target_seconds == 4
        assert spec.strategy.params.max_in_flight == 2
        assert spec.strategy.params.change_batch_seconds == 10
        assert (spec.desired_state, spec.pause.scope, spec.suspend) == ("Running", "History", False)
        assert (spec.after, spec.verify, spec.approval) == ("Exit", "None", "Automatic")
        assert spec.throttle.rows_per_second is None
        assert (spec.write_mode, spec.target.params.existing_rows) == ("Upsert", "Refuse")
        assert spec.source.params.schema_change == "Fail"
        assert backfill.status is None

    def test_the_target_inherits_the_key_of_the_source(self) -> None:
        """Most targets keep the key's name, so users need not write it twice."""
        assert load_backfill(VALID).spec.key == ("order_id",)
        assert load_backfill(changed("spec", "target", "delta", "key", to=["id"])).spec.key == ("id",)

    def test_a_document_names_its_job(self) -> None:
        """The state in the target belongs to a job, not to an object in a cluster."""
        assert load_backfill(changed("spec", "jobId", to="mine")).job_id == "mine"
        assert load_backfill(changed("metadata", "namespace", to="sales")).job_id == "sales/orders"

    def test_a_document_may_come_from_a_cluster(self) -> None:
        """A cluster adds metadata and a status, and the driver reads the whole object."""
        document = changed("metadata", "resourceVersion", to="7")
        document["metadata"] |= {
            "uid": "u",
            "generation": 2,
            "managedFields": [{"manager": "kubectl"}],
            "labels": {"a": "b"},
        }
        document["status"] = {"observedGeneration": 2, "phase": "Running", "progress": {"percent": 10}}

        backfill = load_backfill(document)

        assert backfill.status is not None
        assert backfill.status.phase == "Running"

    def test_a_null_field_counts_as_absent(self) -> None:
        """A mapping whose lines are all commented out is null; a cluster treats it as absent too."""
        assert load_backfill(changed("spec", "throttle", to=None)).spec.throttle.rows_per_second is None

    def test_empty_documents_are_ignored(self) -> None:
        """Editors leave `---` at both ends, which adds empty documents."""
        assert load_backfill(f"---\n{VALID}---\n").metadata.name == "orders"

    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
    def test_every_example_is_valid(self, path: Path) -> None:
        """Users copy the examples."""
        backfill = load_backfill(path.read_text(encoding="utf-8"))

        assert load_backfill(backfill.model_dump(mode="json", by_alias=True)) == backfill

    def test_examples_exist(self) -> None:
        """An empty folder would pass the test above."""
        assert len(EXAMPLES) >= 4


rates = st.none() | st.integers(0, 1_000_000_000)
columns = st.lists(st.text("abcäß_ ", min_size=1, max_size=9).filter(str.strip), max_size=4, unique=True)
params: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.builds(
        lambda n: {"type": "Snapshot", "snapshot": {"vnodes": n, "maxInFlight": 1 + n % 64}}, st.integers(1, 32768)
    ),
    st.just({"type": "Snapshot"}),
)
documents = st.fixed_dictionaries(
    {
        "source": st.fixed_dictionaries(
            {
                "type": st.just("Delta"),
                "delta": st.fixed_dictionaries(
                    {"table": st.just("sales.orders"), "key": st.just(["id"])},
                    optional={
                        "version": st.integers(0, 2**53 - 1),
                        "schemaChange": st.sampled_from(["Fail", "Ignore"]),
                    },
                ),
            }
        ),
        "target": st.fixed_dictionaries(
            {
                "delta": st.fixed_dictionaries(
                    {"path": st.just("s3a://bucket/copy"), "partitionBy": columns},
                    optional={
                        "writeMode": st.sampled_from(["Upsert", "Append", "Changelog"]),
                        "properties": st.dictionaries(st.text("ab.", min_size=1), st.text(max_size=5), max_size=3),
                    },
                )
            }
        ),
        "strategy": params,
        "throttle": st.builds(lambda rate: {"rowsPerSecond": rate}, rates),
    },
    optional={
        "barrier": st.builds(lambda ms: {"intervalMs": ms}, st.integers(100, 60_000)),
        "desiredState": st.sampled_from(["Running", "Paused"]),
        "executor": st.just({"dynamic": {"min": 1, "max": 3}, "template": {"spec": {"nodeSelector": None}}}),
    },
)


class TestWhatIsWrittenCanBeRead:
    """Dumping and loading again changes nothing: operator, driver and users exchange the same document."""

    @settings(deadline=None)
    @given(documents)
    def test_a_dumped_document_loads_unchanged(self, spec: dict[str, Any]) -> None:
        """The dump must not add a member of the strategy that the spec omits."""
        document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "x"}, "spec": spec}
        backfill = load_backfill(document)

        written = backfill.model_dump(mode="json", by_alias=True, exclude_none=True)

        assert load_backfill(written) == backfill
        assert load_backfill(yaml.safe_dump(written)).spec_hash == backfill.spec_hash


DELTA_SOURCE = ("spec", "source", "delta")
DELTA_TARGET = ("spec", "target", "delta")

WRONG: list[tuple[str, dict[str, Any], str, str, str]] = [
    # id, document, path, value, part of message or hint
    ("unknown field", changed(*DELTA_SOURCE, "keys", to=["a"]), "spec.source.delta.keys", '["a"]', "did you mean 'key'?"),
    ("unknown at the top", changed("sepc", to={}), "sepc", "{}", "did you mean 'spec'?"),
    ("unknown far from all", changed("spec", "zzz", to=1), "spec.zzz", "1", "use one of jobId, source"),
    ("snake case", changed(*DELTA_SOURCE, "schema_change", to="Fail"), "spec.source.delta.schema_change", '"Fail"', "'schemaChange'"),
    ("followed columns", changed(*DELTA_SOURCE, "schemaChange", to="Follow"), "spec.source.delta.schemaChange", '"Follow"', "strategy.type: Replica"),
    ("unknown parameter", changed("spec", "strategy", "snapshot", "vnode", to=1), "spec.strategy.snapshot.vnode", "1", "'vnodes'"),
    ("unknown metadata", changed("metadata", "nmespace", to="x"), "metadata.nmespace", '"x"', "'namespace'"),
    ("bool for a number", changed("spec", "barrier", "intervalMs", to=True), "spec.barrier.intervalMs", "true", "whole number"),
    ("text for a number", changed("spec", "barrier", "intervalMs", to="1s"), "spec.barrier.intervalMs", '"1s"', "without quotes"),
    ("float for a number", changed("spec", "backoffLimit", to=1.0), "spec.backoffLimit", "1.0", "whole number"),
    ("negative", changed("spec", "throttle", "rowsPerSecond", to=-1), "spec.throttle.rowsPerSecond", "-1", "at least 0"),
    ("absurd", changed("spec", "throttle", "rowsPerSecond", to=10**18), "spec.throttle.rowsPerSecond", f"{10**18}", "1,000,000,000"),
    ("below", changed("spec", "barrier", "intervalMs", to=99), "spec.barrier.intervalMs", "99", "at least 100"),
    ("above", changed("spec", "barrier", "intervalMs", to=60_001), "spec.barrier.intervalMs", "60001", "at most 60,000"),
    ("vnodes", changed("spec", "strategy", "snapshot", "vnodes", to=0), "spec.strategy.snapshot.vnodes", "0", "at least 1"),
    ("vnodes", changed("spec", "strategy", "snapshot", "vnodes", to=32769), "spec.strategy.snapshot.vnodes", "32769", "32,768"),
    ("text for a list", changed(*DELTA_SOURCE, "key", to="id"), "spec.source.delta.key", '"id"', "[a, b]"),
    ("number for text", changed(*DELTA_SOURCE, "key", to=["a", 1]), "spec.source.delta.key[1]", "1", "quotes"),
    ("number for a mapping", changed("spec", "throttle", to=5), "spec.throttle", "5", "must be a mapping"),
    ("rate with a unit", changed("spec", "throttle", "rowsPerSecond", to="200k"), "spec.throttle.rowsPerSecond", '"200k"', "write it as 200000, without"),
    ("bytes with a unit", changed("spec", "throttle", "bytesPerSecond", to="1.5MB"), "spec.throttle.bytesPerSecond", '"1.5MB"', "write it as 1500000, without"),
    ("minutes for seconds", changed("spec", "activeDeadlineSeconds", to="30m"), "spec.activeDeadlineSeconds", '"30m"', "write it as 1800, without"),
    ("seconds for milliseconds", changed("spec", "barrier", "intervalMs", to="2s"), "spec.barrier.intervalMs", '"2s"', "write it as 2000, without"),
    ("no number at all", changed("spec", "barrier", "intervalMs", to="fast"), "spec.barrier.intervalMs", '"fast"', "write it as 1000, without"),
    ("no time", changed("spec", "throttle", to={"rowsPerSecond": 5, "until": "18:00"}), "spec.throttle.until", '"18:00"', "write it as 2026-"),
    ("time without a zone", changed("spec", "throttle", to={"rowsPerSecond": 5, "until": "2026-11-26T18:00:00"}), "spec.throttle.until", '"2026-', "time zone"),
    ("time beyond the calendar", changed("spec", "throttle", to={"rowsPerSecond": 5, "until": "2026-02-30T18:00:00Z"}), "spec.throttle.until", '"2026-', "calendar"),
    ("end of no limit", changed("spec", "throttle", to={"until": "2026-11-26T18:00:00Z"}), "spec.throttle.until", '"2026-', "add throttle.rowsPerSecond"),
    ("floor above the ceiling", changed("spec", "throttle", "auto", to={"commitSeconds": 1, "floor": 9, "ceiling": 5}), "spec.throttle.auto.floor", "9", "raise ceiling"),
    ("limit without a target", changed("spec", "throttle", "auto", to={"floor": 1, "ceiling": 5}), "spec.throttle.auto", "", "add commitSeconds"),
    ("target without a source", changed("spec", "throttle", "auto", to={"commitSeconds": 1, "floor": 1, "ceiling": 5, "cpuPercent": 5}), "spec.throttle.auto.cpuPercent", "5", "use one of"),
    ("short form", changed("spec", "strategy", to="Replica"), "spec.strategy", '"Replica"', "write strategy: {type: Replica}"),
    ("short form, other letters", changed("spec", "strategy", to="snapshot"), "spec.strategy", '"snapshot"', "write strategy: {type: Snapshot}"),
    ("short form of a place", changed("spec", "target", to="Delta"), "spec.target", '"Delta"', "write target: {type: Delta, delta: {…}}"),
    ("short form of no type", changed("spec", "strategy", to="quickly"), "spec.strategy", '"quickly"', "use one of Arrangement, "),
    ("text for a bool", changed("spec", "suspend", to="yes"), "spec.suspend", '"yes"', "true or false"),
    ("no such choice", changed("spec", "after", to="exit"), "spec.after", '"exit"', "did you mean 'Exit'?"),
    ("no such type", changed("spec", "source", "type", to="Iceberg"), "spec.source.type", '"Iceberg"', "Delta"),
    ("not built", changed("spec", "source", "type", to="Files"), "spec.source.type", '"Files"', "Delta"),
    ("not built", changed("spec", "strategy", "type", to="Mirror"), "spec.strategy.type", '"Mirror"', "Snapshot"),
    ("not built", changed("spec", "source", "files", to={"topic": "t"}), "spec.source.files", '{"topic"', "unknown field"),
    ("empty", changed("spec", "transform", "select", to=["a", ""]), "spec.transform.select[1]", '""', "must not be empty"),
    ("blank", changed("spec", "transform", "where", to=" "), "spec.transform.where", '" "', "must not be blank"),
    ("no name of a plan", changed("spec", "approvedPlan", to="orders"), "spec.approvedPlan", '"orders"', "status.planOf"),
    ("too long", changed("spec", "jobId", to="x" * 254), "spec.jobId", '"' + "x" * 78 + "…", "at most 253 characters"),
    ("too many", changed(*DELTA_SOURCE, "key", to=["k"] * 65), "spec.source.delta.key", '["k", "k"', "at most 64 items"),
    ("twice in a list", changed(*DELTA_SOURCE, "key", to=["a", "a"]), "spec.source.delta.key[1]", '"a"', "is repeated"),
    ("required", changed("spec", "source", to=REMOVED), "spec.source", "", "is required"),
    ("required choice", changed("spec", "source", "type", to=REMOVED), "spec.source.type", "", "add type: Delta"),
    ("no place", changed(*DELTA_SOURCE, "path", to=REMOVED), "spec.source.delta.path", "", "path: <folder> or table: <name>"),
    ("two places", changed(*DELTA_TARGET, "table", to="t"), "spec.target.delta.table", '"t"', "remove path or table"),
    ("no member", changed("spec", "source", to={"type": "Delta"}), "spec.source.delta", "", "because type is Delta"),
    ("no key", changed(*DELTA_SOURCE, "key", to=REMOVED), "spec.source.delta.key", "", "name the columns that identify a row"),
    ("null key", changed(*DELTA_SOURCE, "key", to=None), "spec.source.delta.key", "", "writeMode is Upsert"),
    ("map value", changed(*DELTA_TARGET, "properties", "delta.x", to=True), 'spec.target.delta.properties["delta.x"]', "true", "quotes"),
    ("two layouts", changed(*DELTA_TARGET, to={"path": "p", "partitionBy": ["a"], "clusterBy": ["b"]}),
     "spec.target.delta.clusterBy", '["b"]', "not both"),
    ("kept rows and keys", changed(*DELTA_TARGET, "existingRows", to="Keep"),
     "spec.target.delta.existingRows", '"Keep"', "writeMode: Append"),
    ("kept rows and a receipt", changed("spec", to=yaml.safe_load(VALID)["spec"] | {"verify": "Final", "target": {
        "delta": {"path": "p", "writeMode": "Append", "existingRows": "Keep"}}}), "spec.verify", '"Final"', "verify: None"),
    ("operator's setting", changed("spec", "spark", "conf", "spark.master", to="x"), 'spec.spark.conf["spark.master"]', '"x"', "remove it"),
    ("secret", changed("spec", "spark", "conf", "spark.hadoop.fs.s3a.secret.key", to="x"), 'spec.spark.conf["spark.hadoop.fs.s3a.secret.key"]', "", "Secret"),
    ("operator's secret", changed("spec", "spark", "conf", "spark.authenticate.secret", to="x"), 'spec.spark.conf["spark.authenticate.secret"]', "", "remove it"),
    ("secret of no field", changed("spec", "password", to="x"), "spec.password", "", "use one of"),
    ("drain without end", changed("spec", "drainTimeoutSeconds", to=604800), "spec.drainTimeoutSeconds", "604800", "use 3600 or less"),
    ("order of two", changed("spec", "backoff", "initialSeconds", to=700), "spec.backoff.initialSeconds", "700", "exceeds maxSeconds"),
    ("two sizes", changed("spec", "executor", to={"instances": 1, "dynamic": {}}), "spec.executor.instances", "1", "dynamic"),
    ("name", changed("metadata", "name", to="Orders_1"), "metadata.name", '"Orders_1"', "lower-case letters"),
    ("no metadata", changed("metadata", to=REMOVED), "metadata", "", "is required"),
    ("kind", changed("kind", to="Job"), "kind", '"Job"', "write kind: Backfill"),
    ("version", changed("apiVersion", to="backfill.dev/v1"), "apiVersion", '"backfill.dev/v1"', "backfill.dev/v1alpha1"),
    ("name that is no text", changed("spec", 7, to=1), "spec[7]", "7", "put the name in quotes"),
]  # fmt: skip


RESERVED_SETTINGS = [
    *CONF_RESERVED,
    *(prefix + "x" for prefix in CONF_RESERVED_PREFIXES),
    # Other spellings of each setting, as users of Spark write them.
    "spark.authenticate.secret", "spark.authenticate.secret.file", "spark.authenticate.secret.driver.file",
    "spark.kubernetes.authenticate.driver.serviceAccountName", "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image", "spark.kubernetes.executor.podTemplateFile",
]  # fmt: skip


class TestSparksSettings:
    """A spec must not choose the nodes, the account or the image of pods: it would use the operator's rights."""

    @pytest.mark.parametrize("name", RESERVED_SETTINGS)
    def test_settings_of_the_operator_are_refused(self, name: str) -> None:
        """Reserved settings are rejected by name and by prefix, because Spark has several for the same purpose."""
        with pytest.raises(SpecError, match="is set by the operator"):
            load_backfill(changed("spec", "spark", "conf", name, to="x"))

    @pytest.mark.parametrize(
        "name", ["spark.sql.shuffle.partitions", "spark.authenticate.other", "spark.executor.cores"]
    )
    def test_other_settings_are_accepted(self, name: str) -> None:
        """Users tune Spark with them."""
        assert load_backfill(changed("spec", "spark", "conf", name, to="1")).spec.spark.conf[name] == "1"


class TestABadField:
    """Every error names the path of the field as it is written, the value, and the hint."""

    @pytest.mark.parametrize(
        ("document", "path", "value", "message"),
        [case[1:] for case in WRONG],
        ids=[f"{case[0]}: {case[2]}" for case in WRONG],
    )
    def test_a_wrong_field_is_named(self, document: dict[str, Any], path: str, value: str, message: str) -> None:
        """The user must find the field and learn the right value."""
        error = refusal(document)

        assert error.path == path
        assert error.value.startswith(value) if value else error.value == ""
        assert message in str(error)
        assert error.hint

    def test_a_wrong_field_does_not_hide_another(self) -> None:
        """A user corrects all errors at once, and not one per run."""
        document = changed("spec", "after", to="never")
        document["spec"]["source"]["delta"]["keys"] = []

        assert [error.path for error in errors_of(document)] == ["spec.source.delta.keys", "spec.after"]

    @settings(deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        )
    )
    def test_a_wrong_field_is_never_a_crash(self, junk: Any) -> None:
        """Any value in place of a field raises a SpecError: another exception would end the operator's worker."""
        for field in ("source", "transform", "strategy", "barrier", "jobId", "backoffLimit"):
            assert all(error.path and error.hint for error in errors_of(changed("spec", field, to=junk)))


class TestABadText:
    """Ambiguous YAML is rejected: repeated keys, several documents, or none."""

    def test_a_repeated_key_is_reported_with_both_lines(self) -> None:
        """YAML parsers silently keep the second value."""
        error = refusal(VALID + "  after: Exit\n  after: Follow\n")

        assert error == FieldError("spec.after", "is repeated (lines 7 and 8)", '"Follow"', "remove one of them")

    def test_a_repeated_key_inside_a_list_is_reported(self) -> None:
        """The path of the item leads the user to a key deep in the document."""
        assert refusal("a: [{b: 1, b: 2}]").path == "a[0].b"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "found 0"),
            (VALID + "---\n" + VALID, "found 2"),
            ("[]", "must be a mapping"),
            ("hello", "must be a mapping"),
            ("a: [b", "is not YAML"),
            ("a: 2020-13-45", "is not YAML"),
            ("a: !!python/object:os.system {}", "is not YAML"),
            ("a: \x01", "is not YAML"),
            ("? [a]\n: b", "key that is no text"),
            ("a: &a [*a]", "refers to itself"),
            ("[" * 5000, "nested too deeply"),
            ("a: '" + "x" * 1_048_576 + "'", "characters"),
        ],
        ids=["nothing", "two", "list", "word", "open", "date", "object", "control", "key", "cycle", "deep", "long"],
    )
    def test_an_ambiguous_document_is_refused(self, text: str, message: str) -> None:
        """Each error has a reason and a hint; a document must not run code or take forever."""
        error = refusal(text)

        assert message in error.message
        assert error.hint

    def test_aliases_that_expand_without_end_are_refused(self) -> None:
        """Aliases of aliases make 10^6 nodes of 200 characters, which would fill the memory."""
        lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]

        assert "too large" in refusal("\n".join(lines)).message

    def test_a_document_without_a_head_gets_a_hint(self) -> None:
        """All fields of another kind would be unknown, and would bury the reason."""
        with pytest.raises(SpecError) as caught:
            load_backfill("apiversion: backfill.dev/v1alpha1\nspec: {}")

        assert [str(error) for error in caught.value.errors] == [
            "apiVersion: is required; rename 'apiversion'",
            "kind: is required; add kind: Backfill",
        ]


class TestAModel:
    """Models are frozen, so a checked value stays valid."""

    def test_a_model_cannot_be_changed(self) -> None:
        """An accidental assignment would change a running job."""
        backfill: BackfillResource = load_backfill(VALID)

        with pytest.raises(ValueError, match="frozen"):
            setattr(backfill.spec, "after", "Follow")
