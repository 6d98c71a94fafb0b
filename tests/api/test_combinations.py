"""What does not fit together in a spec is refused when it is read, by the field and with what would work."""

from dataclasses import replace

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError, load_backfill
from backfill_api.spec import combinations
from backfill_api.spec.params import SourceAbility, TargetAbility
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy


@pytest.fixture
def begins_anew(monkeypatch):
    """The strategy that is chosen by default needs a target that lets rows go."""
    [name] = [name for name, one in Strategy.VARIANTS.items() if one.default]
    needy = replace(Strategy.VARIANTS[name], needs=Strategy.VARIANTS[name].needs | {TargetAbility.START_OVER})
    monkeypatch.setitem(Strategy.VARIANTS, name, needy)
    return name


class TestRowsThatAreKept:
    """They would go with those of the job, weeks after it began."""

    def test_are_refused_by_the_models(self, begins_anew):
        """When the spec is read, not when the job begins anew."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", target={"writeMode": "Append", "existingRows": "Keep"})

        [said] = map(str, refused.value.errors)
        assert said.startswith("spec.target.delta.existingRows: ")
        assert f"strategy {begins_anew} takes all rows out" in said
        assert job("/s", "/t", target={"writeMode": "Append"})

    def test_are_refused_by_the_cluster(self, begins_anew):
        """The server says the same at `kubectl apply`."""
        kept = (
            "has(self.target.delta) && has(self.target.delta.existingRows) && self.target.delta.existingRows == 'Keep'"
        )

        assert f"self.strategy.type != '{begins_anew}' || !({kept})" in dict(combinations.rules())

    def test_are_no_matter_to_others(self):
        """A strategy that goes on takes nothing out."""
        assert job("/s", "/t", target={"writeMode": "Append", "existingRows": "Keep"})


class TestASourceThatLacksAnAbility:
    """Each strategy names what it needs when the spec is read, and what would work."""

    @pytest.mark.parametrize(
        ("strategy", "lacks", "hint"),
        [
            ("Arrangement", SourceAbility.KEY_RANGES, "use strategy.type: "),
            ("RearrangedChain", SourceAbility.PIN, "use strategy.type: Arrangement"),
            ("Snapshot", SourceAbility.PIN, "use strategy.type: Arrangement"),
        ],
    )
    def test_is_refused(self, monkeypatch, strategy, lacks, hint):
        """Not by its driver, an hour later."""
        delta = Source.VARIANTS["Delta"]
        monkeypatch.setitem(Source.VARIANTS, "Delta", replace(delta, abilities=delta.abilities - {lacks}))

        with pytest.raises(SpecError) as refused:
            job("/s", "/t", strategy={"type": strategy})

        [said] = map(str, refused.value.errors)
        assert said.startswith("spec.source.type: ")
        assert f"needs {lacks} of the source" in said
        assert hint in said


class TestALimitOfBytes:
    """Bytes are those of files."""

    def test_is_refused_for_a_topic(self):
        """With the field, and with the limit that works."""
        document = job("/s", "/t", throttle={"bytesPerSecond": 5}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        topic = {"type": "Kafka", "kafka": {"bootstrapServers": "b:9092", "topic": "t"}}
        document["spec"] |= {"source": topic, "strategy": {"type": "SourceSplits"}}
        with pytest.raises(SpecError) as refused:
            load_backfill(document)

        [said] = map(str, refused.value.errors)
        assert said.startswith("spec.throttle.bytesPerSecond: ")
        assert "set throttle.rowsPerSecond" in said

    @pytest.mark.parametrize("limit", [{"bytesPerSecond": 0}, {"bytesPerSecond": 5, "rowsPerSecond": 5}])
    def test_is_taken_for_a_table(self, limit):
        """Also beside one of rows: the lower one holds."""
        assert job("/s", "/t", throttle=limit).spec.throttle.bytes_per_second == limit["bytesPerSecond"]


class TestATargetThatGetsTheFilesOfItsSource:
    """It is laid out and written as the source is: what a user would say of it is refused by name."""

    def test_needs_no_key_and_no_mode(self):
        """Files are copied, and rows are not looked for."""
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
    def test_says_nothing_else(self, field, value):
        """The first of what is wrong is named, with what to do."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", target={field: value}, strategy={"type": "Replica"})

        [said] = map(str, refused.value.errors)
        assert said.startswith(f"spec.target.delta.{field}: ")
        assert "Replica" in said

    def test_is_refused_by_the_cluster_as_well(self):
        """The server says the same at `kubectl apply`."""
        rules = [rule for rule, _ in combinations.rules() if rule.startswith("self.strategy.type != 'Replica'")]
        assert any("writeMode.size() > 0" in rule and "existingRows == 'Keep'" in rule for rule in rules)

    def test_has_a_source_with_a_log(self):
        """A topic has no files."""
        topic = {"type": "Kafka", "kafka": {"bootstrapServers": "b:9092", "topic": "t"}}
        document = job("/s", "/t").model_dump(mode="json", by_alias=True, exclude_none=True)
        document["spec"] |= {"source": topic, "strategy": {"type": "Replica"}}
        document["spec"]["target"]["delta"] = {"path": "/t"}
        with pytest.raises(SpecError, match="strategy Replica needs SupportsLog and SupportsPin of the source"):
            load_backfill(document)
