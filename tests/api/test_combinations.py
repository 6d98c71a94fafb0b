"""A strategy that begins anew takes all rows out of its target: rows that are to be kept there are refused with the spec."""

from dataclasses import replace

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError
from backfill_api.spec import combinations
from backfill_api.spec.params import TargetAbility
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
