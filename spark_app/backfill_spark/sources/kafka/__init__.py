"""Kafka topics as sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api.spec.sources import Source, kafka
from backfill_core.positions.offsets import Offsets
from backfill_spark.ports.source import SourcePlugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_spark.sources.kafka.source import TopicSource

WORDS_MAX = 256


def _open(spark: SparkSession, spec: Source) -> TopicSource:
    from backfill_spark.settings import source_secret_dir
    from backfill_spark.sources.kafka.client import client_settings
    from backfill_spark.sources.kafka.source import TopicSource

    params = spec.params
    assert isinstance(params, kafka.KafkaSource)
    return TopicSource(spark, params, client_settings(params, source_secret_dir()))


def _code() -> type[TopicSource]:
    from backfill_spark.sources.kafka.source import TopicSource

    return TopicSource


def format_offsets(position: Offsets) -> str:
    """Format a position: the offset of each partition, or a summary if there are many partitions."""
    places = [f"{name}:{offset}" for name, offset in sorted(position.items(), key=lambda item: int(item[0]))]
    text = f"offsets {' '.join(places)}"
    return text if len(text) <= WORDS_MAX else f"offsets of {len(places)} partitions, {sum(position.values())} in all"


SOURCE = SourcePlugin(name="Kafka", open=_open, code=_code, format_position=format_offsets)
