"""A switch-over that is not possible is refused before Spark starts."""

import pytest
from support.endings import assert_ending
from support.tables.jobs import document

from backfill_api.load import load_backfill
from backfill_core.errors import InvalidSpecError
from backfill_core.switch_over.steps import Goal
from backfill_spark.settings import DriverSettings
from backfill_spark.switch_over.command import switch_over
from backfill_spark.switch_over.plan import SwitchOptions, plan_switch

TOPIC = {"type": "Kafka", "kafka": {"bootstrapServers": "broker:9092", "topic": "orders"}}


def of_a_topic():
    """Return a job that fills a table from a topic."""
    given = document("/s", "/t", after="Follow", strategy={"type": "SourceSplits"})
    return given | {"spec": given["spec"] | {"source": TOPIC}}


class TestASwitchOver:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (of_a_topic(), "spec.source.type: Kafka cannot be switched over"),
            (document("/s", "/t"), "spec.after: a switch-over needs a job that follows its source"),
        ],
    )
    def test_that_no_log_or_no_driver_allows_is_refused_by_its_field(self, tmp_path, given, message):
        """Neither table is opened, and no session starts."""
        settings, job = DriverSettings(state_dir=tmp_path), load_backfill(given)

        with pytest.raises(InvalidSpecError) as planned:
            plan_switch(job, settings=settings, options=SwitchOptions())
        with pytest.raises(InvalidSpecError) as refused:
            switch_over(job, settings=settings, goal=Goal.SWITCH, options=SwitchOptions(), stop_other=lambda: None)

        assert_ending(refused.value, "InvalidSpec")
        assert message in refused.value.message
        assert planned.value.message == refused.value.message
