"""Memory of drivers and executors: heap and off-heap memory share the container's memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.observations import spec

from backfill_core.cluster_rules.container_sizes import quantity
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.spark_conf import driver_size, executor_size, properties


def launch(**fields: Any) -> Launch:
    """Return a launch of a valid spec."""
    return Launch("shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), Installation("backfill:1"))


class TestSizes:
    """A pod that exceeds its memory limit is killed."""

    @given(st.integers(768, 65536))
    def test_heap_fits_into_its_container(self, mib: int) -> None:
        """Python and the off-heap memory of a JVM also need memory."""
        size = driver_size(launch(driver={"resources": {"limits": {"memory": f"{mib}Mi"}}}))

        assert size.heap_mib + size.overhead_mib == mib
        assert size.heap_mib >= 450
        assert size.overhead_mib >= 300

    @given(st.integers(768, 65536))
    def test_executor_has_off_heap_memory(self, mib: int) -> None:
        """Executors with 384 MiB were killed at the default of 2 GiB, and at 1280 MiB (fault K2)."""
        size = executor_size(launch(executor={"resources": {"limits": {"memory": f"{mib}Mi"}}}))

        assert size.heap_mib + size.overhead_mib == mib
        assert size.heap_mib >= 460
        assert size.overhead_mib >= min(768, mib - 460, mib * 6 // 10) - 1
        assert size.overhead_mib >= mib * 30 // 100

    def test_default_executor_has_768_mib_off_heap(self) -> None:
        """The default is 2 GiB in total."""
        made = properties(launch())

        assert (made["spark.executor.memory"], made["spark.executor.memoryOverhead"]) == ("1280m", "768m")

    @pytest.mark.parametrize(
        ("text", "value"), [("500m", "0.5"), ("2", "2"), ("1.5", "1.5"), ("2Gi", "2147483648"), ("1G", "1000000000"),
                            ("64Mi", "67108864"), ("1e3", "1000"), ("1k", "1000"), ("1Ki", "1024")],
    )  # fmt: skip
    def test_quantities_are_parsed_like_kubernetes_does(self, text: str, value: str) -> None:
        """Binary and decimal suffixes differ."""
        assert quantity(text, "x") == quantity(value, "x")
