"""A path in a spec has the same meaning in every pod, or is refused before the pod is created."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.operators.observations import TABLES, spec
from support.repository import ROOT

from backfill_api.load import load_backfill
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod

TOPIC = {"bootstrapServers": "broker:9092", "topic": "orders", "onBadRecord": "Quarantine"}


def built(**fields: Any) -> dict[str, Any]:
    """Return the driver's pod."""
    installation = Installation("backfill:1", limits=Limits(conf=("*",)))
    return driver_pod(Launch("shop", "orders", "uid", 1, "Run", spec(**fields), installation))


class TestAPathThatDependsOnAFolder:
    """The command line resolves such a path from the spec's folder; a pod would resolve it from the folder of its ConfigMap."""

    @pytest.mark.parametrize("path", ["./lake/orders", "lake/orders", ".", "../lake", "~/lake/orders", "~other/lake"])
    @pytest.mark.parametrize("side", ["source", "target"])
    @pytest.mark.parametrize("conf", [{}, {"spark.hadoop.fs.defaultFS": "s3a://lake"}], ids=["local", "store"])
    def test_relative_path_is_refused(self, path: str, side: str, conf: dict[str, str]) -> None:
        """The refusal has field and hint; before, the driver started and did not find the table."""
        given = {side: TABLES[side] | {"delta": TABLES[side]["delta"] | {"path": path}}}

        with pytest.raises(ManifestRefusedError) as caught:
            built(**given, spark={"conf": conf})

        assert caught.value.path == f"spec.{side}.delta.path"
        assert (path in caught.value.message, "object store" in caught.value.hint) == (True, True)

    def test_relative_path_of_bad_records_is_refused(self) -> None:
        """Their table is written like the target."""
        source = {"type": "Kafka", "kafka": TOPIC | {"quarantinePath": "./lake/bad"}}

        with pytest.raises(ManifestRefusedError) as caught:
            built(
                source=source,
                strategy={"type": "SourceSplits"},
                target={"type": "Delta", "delta": {"path": "/lake/orders"}},
            )

        assert caught.value.path == "spec.source.kafka.quarantinePath"

    @pytest.mark.parametrize(
        "path", ["/lake/a", "//lake/a", "file:/lake/a", "file:///lake/~", "s3a://lake/./a", "hdfs:/a"]
    )
    def test_absolute_path_is_accepted(self, path: str) -> None:
        """Absolute paths and URIs of stores."""
        source, target = (
            TABLES[side] | {"delta": TABLES[side]["delta"] | {"path": path + side}} for side in ("source", "target")
        )
        assert built(source=source, target=target)["kind"] == "Pod"

    def test_name_in_a_catalog_is_accepted(self) -> None:
        """It has no folder here."""
        assert built(source={"type": "Delta", "delta": {"table": "shop.orders", "key": ["id"]}})["kind"] == "Pod"


PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*.yaml")))
APPLIED = {file for page in PAGES for file in re.findall(r"kubectl apply .*-f (\S+\.yaml)", page.read_text())}
"""The manifests that documentation pages apply."""


class TestWhatThePagesApply:
    """A reader has this checkout and a cluster."""

    def test_documented_manifest_exists(self) -> None:
        """It is an example and not a file that a reader would have to write; the CRD is not an example."""
        assert APPLIED
        assert [file for file in APPLIED if not (ROOT / file).exists()] == []

    @pytest.mark.parametrize("file", sorted(file for file in APPLIED if file.startswith("examples/")))
    def test_documented_manifest_can_be_launched(self, file: str) -> None:
        """One of them needs folders of the node, as its first lines say."""
        given = load_backfill((ROOT / file).read_text()).spec
        installation = Installation("backfill:1", limits=Limits(host_paths=("/var/tmp/backfill-lake",)))
        assert driver_pod(Launch("shop", "orders", "uid", 1, "Run", given, installation))["kind"] == "Pod"
