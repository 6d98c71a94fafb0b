"""Sources of topics of the suite's broker."""

import pytest

from backfill_api.spec.sources.kafka import KafkaSource as Params
from backfill_spark.sources.kafka.client import client_settings
from backfill_spark.sources.kafka.source import TopicSource


@pytest.fixture
def opened(spark, broker):
    """Make a source of a topic from the fields of a spec."""

    def make(topic, *, folder=None, **given):
        params = Params.model_validate({"bootstrapServers": broker.address, "topic": topic, **given})
        return TopicSource(spark, params, client_settings(params, folder))

    return make
