"""Datasets of sources and targets have the names that OpenLineage's rules of naming give them."""

from __future__ import annotations

import pytest

from backfill_api.load import load_backfill


def spec_of(source: dict[str, object], kind: str = "Delta") -> dict[str, object]:
    """Return a Backfill with this source."""
    target = {"type": "Delta", "delta": {"path": "/lake/copy"}}
    document = {"source": {"type": kind, kind.lower(): source}, "target": target}
    if kind == "Kafka":
        document |= {"strategy": {"type": "SourceSplits"}}
    return {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "orders"}, "spec": document}


class TestADataset:
    @pytest.mark.parametrize(
        ("source", "dataset"),
        [
            ({"path": "s3a://lake/raw/orders"}, ("s3://lake", "raw/orders")),
            ({"path": "gs://lake/orders"}, ("gs://lake", "orders")),
            (
                {"path": "abfss://lake@shop.dfs.core.windows.net/orders"},
                ("abfss://lake@shop.dfs.core.windows.net", "orders"),
            ),
            ({"path": "hdfs://names:8020/lake/orders"}, ("hdfs://names:8020", "/lake/orders")),
            ({"path": "/lake/orders"}, ("file", "/lake/orders")),
            ({"path": "file:/lake/orders"}, ("file", "/lake/orders")),
            ({"table": "shop.orders"}, ("", "shop.orders")),
        ],
        ids=["S3", "GCS", "Azure", "HDFS", "folder", "file", "catalog"],
    )
    def test_table_is_named_by_its_place(self, source: dict[str, str], dataset: tuple[str, str]) -> None:
        """Other tools name the same table in the same way. The namespace of a catalog is that of the job."""
        assert load_backfill(spec_of(source | {"key": ["id"]})).spec.source.params.dataset == dataset

    def test_topic_is_named_by_its_first_broker(self) -> None:
        """OpenLineage has one broker in the namespace."""
        topic = {"bootstrapServers": "one:9092,two:9092", "topic": "orders"}

        assert load_backfill(spec_of(topic, "Kafka")).spec.source.params.dataset == ("kafka://one:9092", "orders")
