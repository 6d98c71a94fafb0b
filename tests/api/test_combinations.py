"""An invalid combination in a spec is rejected when the spec is read; the message names the field and the alternatives."""

from dataclasses import replace

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError, load_backfill
from backfill_api.spec import combinations
from backfill_api.spec.params import SourceAbility, TargetAbility
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy


@pytest.fixture
def restarting_strategy(monkeypatch):
    """Make the default strategy need a target that can start over."""
    [name] = [name for name, variant in Strategy.VARIANTS.items() if variant.default]
    restarting = replace(Strategy.VARIANTS[name], needs=Strategy.VARIANTS[name].needs | {TargetAbility.START_OVER})
    monkeypatch.setitem(Strategy.VARIANTS, name, restarting)
    return name


class TestRowsThatAreKept:
    """A restart would delete them with the rows of the job, weeks later."""

    def test_kept_rows_are_refused_by_the_models(self, restarting_strategy):
        """The spec is rejected when it is read, not when the job starts over."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", target={"writeMode": "Append", "existingRows": "Keep"})

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.target.delta.existingRows: ")
        assert f"strategy {restarting_strategy} takes all rows out" in message
        assert job("/s", "/t", target={"writeMode": "Append"})

    def test_kept_rows_are_refused_by_the_cluster(self, restarting_strategy):
        """`kubectl apply` applies the same rule."""
        kept = (
            "has(self.target.delta) && has(self.target.delta.existingRows) && self.target.delta.existingRows == 'Keep'"
        )

        assert f"self.strategy.type != '{restarting_strategy}' || !({kept})" in dict(combinations.rules())

    def test_kept_rows_are_allowed_for_a_resumable_strategy(self):
        """Such a strategy deletes no rows."""
        assert job("/s", "/t", target={"writeMode": "Append", "existingRows": "Keep"})


class TestASourceThatLacksAnAbility:
    """The message names the ability that the strategy needs, and the alternatives, when the spec is read."""

    @pytest.mark.parametrize(
        ("strategy", "lacks", "hint"),
        [
            ("Arrangement", SourceAbility.KEY_RANGES, "use strategy.type: "),
            ("RearrangedChain", SourceAbility.PIN, "use strategy.type: Arrangement"),
            ("Snapshot", SourceAbility.PIN, "use strategy.type: Arrangement"),
        ],
    )
    def test_a_source_without_the_ability_is_refused(self, monkeypatch, strategy, lacks, hint):
        """The driver would reject it an hour later."""
        delta = Source.VARIANTS["Delta"]
        monkeypatch.setitem(Source.VARIANTS, "Delta", replace(delta, abilities=delta.abilities - {lacks}))

        with pytest.raises(SpecError) as refused:
            job("/s", "/t", strategy={"type": strategy})

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.source.type: ")
        assert f"needs {lacks} of the source" in message
        assert hint in message


class TestALimitOfBytes:
    """A limit of bytes applies to files."""

    def test_a_limit_of_bytes_is_refused_for_a_topic(self):
        """The message names the field, and the limit that works."""
        document = job("/s", "/t", throttle={"bytesPerSecond": 5}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        topic = {"type": "Kafka", "kafka": {"bootstrapServers": "b:9092", "topic": "t"}}
        document["spec"] |= {"source": topic, "strategy": {"type": "SourceSplits"}}
        with pytest.raises(SpecError) as refused:
            load_backfill(document)

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.throttle.bytesPerSecond: ")
        assert "set throttle.rowsPerSecond" in message

    @pytest.mark.parametrize("limit", [{"bytesPerSecond": 0}, {"bytesPerSecond": 5, "rowsPerSecond": 5}])
    def test_a_limit_of_bytes_is_accepted_for_a_table(self, limit):
        """The lower limit applies if there is a limit of rows too."""
        assert job("/s", "/t", throttle=limit).spec.throttle.bytes_per_second == limit["bytesPerSecond"]


class TestATargetThatGetsTheFilesOfItsSource:
    """The target has the layout and the modes of its source; the fields that would change them are rejected by name."""

    def test_a_replica_needs_no_key_and_no_mode(self):
        """Files are copied, and no rows are matched."""
        spec = job("/s", "/t", source={"key": []}, strategy={"type": "Replica"}).spec
        assert (spec.key, spec.write_mode) == ((), "Append")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("writeMode", "Upsert"),
            ("writeMode", "Append"),
            ("writeMode", "Changelog"),
            ("partitionBy", ["a"]),
            ("clusterBy", ["a"]),
            ("existingRows", "Keep"),
        ],
    )
    def test_a_replica_refuses_fields_of_the_layout(self, field, value):
        """The message names the first wrong field, with the remedy."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", target={field: value}, strategy={"type": "Replica"})

        [message] = map(str, refused.value.errors)
        assert message.startswith(f"spec.target.delta.{field}: ")
        assert "Replica" in message

    def test_a_replica_with_a_layout_is_refused_by_the_cluster(self):
        """`kubectl apply` applies the same rules."""
        rules = [rule for rule, _ in combinations.rules() if rule.startswith("self.strategy.type != 'Replica'")]
        assert any("writeMode.size() > 0" in rule and "existingRows == 'Keep'" in rule for rule in rules)

    def test_a_replica_needs_a_source_with_a_log(self):
        """A topic has no files."""
        topic = {"type": "Kafka", "kafka": {"bootstrapServers": "b:9092", "topic": "t"}}
        document = job("/s", "/t").model_dump(mode="json", by_alias=True, exclude_none=True)
        document["spec"] |= {"source": topic, "strategy": {"type": "Replica"}}
        document["spec"]["target"]["delta"] = {"path": "/t"}
        with pytest.raises(SpecError, match="strategy Replica needs SupportsLog and SupportsPin of the source"):
            load_backfill(document)


class TestRowsThatBecomeVisibleTogether:
    """A strategy that changes rows while it copies needs them visible."""

    @pytest.mark.parametrize("publish", ["WhenComplete", "WhenVerified"])
    def test_a_strategy_that_merges_while_it_copies_is_refused(self, publish):
        """The message names the strategies that work."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", strategy={"type": "Arrangement"}, target={"publish": publish})

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.target.delta.publish: ")
        assert "strategy Arrangement changes rows of the target while it copies" in message
        assert "strategy.type: Replica or Snapshot" in message

    @pytest.mark.parametrize("strategy", ["Snapshot", "Replica"])
    def test_a_strategy_that_copies_first_is_accepted(self, strategy):
        """Also with `after: Follow`: changes follow the publication."""
        loaded = job("/s", "/t", strategy={"type": strategy}, target={"publish": "WhenVerified"}, after="Follow")
        assert loaded.spec.target.params.publish == "WhenVerified"


class TestHiddenRows:
    """Rows are hidden in copied files, so a job must copy files, and may keep rows that its filter leaves out."""

    @pytest.mark.parametrize("strategy", ["Arrangement", "RearrangedChain"])
    def test_a_strategy_that_writes_all_rows_is_refused(self, strategy):
        """The message names the strategies that work."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", strategy={"type": strategy}, target={"filteredRows": "Hidden"})

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.target.delta.filteredRows: rows are hidden in copied files")
        assert "strategy.type: Replica or Snapshot" in message

    def test_a_scope_is_refused(self):
        """A hidden row outside of the scope would end the next job that replaces it."""
        target = {"filteredRows": "Hidden", "scope": "id > 3", "publish": "WhenVerified", "writeMode": "Append"}
        with pytest.raises(SpecError, match=r"spec.target.delta.filteredRows: a copied file may have hidden rows"):
            job("/s", "/t", target=target)

    @pytest.mark.parametrize("strategy", ["Snapshot", "Replica"])
    def test_a_strategy_that_copies_files_is_accepted(self, strategy):
        """Also with rows that become visible together."""
        target = {"filteredRows": "Hidden", "publish": "WhenVerified"}
        assert job("/s", "/t", strategy={"type": strategy}, target=target).spec.target.params.hides_rows


class TestAScope:
    """The commit that makes the copied rows visible replaces those of the scope; no other commit can."""

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"target": {"scope": "day = 1"}}, "spec.target.delta.publish"),
            ({"target": {"scope": "day = 1", "publish": "WhenVerified"}, "after": "Follow"}, "spec.after"),
            (
                {"target": {"scope": "day = 1", "publish": "WhenVerified", "existingRows": "Keep", "writeMode": "Append"}},
                "spec.target.delta.existingRows",
            ),
        ],
    )  # fmt: skip
    def test_what_it_cannot_go_with_is_refused_by_name(self, spec, field):
        """Each message has a remedy."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", **spec)

        assert any(str(error).startswith(f"{field}: ") for error in refused.value.errors)
        assert all(error.hint for error in refused.value.errors)

    def test_it_belongs_to_the_identity_of_a_job(self):
        """A state of another scope must not be resumed."""
        one, other = (
            job("/s", "/t", target={"scope": scope, "publish": "WhenComplete"}) for scope in ("d = 1", "d = 2")
        )
        assert one.spec_hash != other.spec_hash
        assert one.spec_fields.keys() >= {"spec.target.delta.scope"}
