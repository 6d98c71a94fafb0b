"""The listing of a log on a local disk, which each commit needs (ADR 0038)."""

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.log_stores.java_classes import LOCAL, bring_log_store

NAMES = [
    *(f"{version:020d}.{kind}" for version in (7, 8, 9, 10) for kind in ("json", "crc")), f"{8:020d}.checkpoint.parquet",
    ".00000000000000000009.json.crc", "_last_checkpoint", "_sidecars/a.parquet", "a name with % and é.json",
]  # fmt: skip
STARTS = [f"{0:020d}.", f"{8:020d}.checkpoint", f"{9:020d}.json", f"{11:020d}.", "_last_checkpoint", "zz"]


def listed(spark, store, path):
    """Return path, kind, size and modification time of each file that a log store lists from a path on."""
    jvm, conf = java(spark), hadoop_conf(spark)
    files, found = getattr(jvm.io.delta.storage, store)(conf).listFrom(jvm.org.apache.hadoop.fs.Path(path), conf), []
    while files.hasNext():
        file = files.next()
        found.append((str(file.getPath().toString()), file.isDirectory(), file.getLen(), file.getModificationTime()))
    return found


@pytest.fixture(scope="module")
def log(spark, tmp_path_factory):
    """A folder with files of a log and others."""
    folder = tmp_path_factory.mktemp("a table [1]") / "_delta_log"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    bring_log_store(spark, LOCAL)
    return folder


class TestTheListingOfALog:
    """It has the files that Delta's own log store lists, which reads the attributes of all files of the folder."""

    @pytest.mark.parametrize("start", STARTS)
    def test_the_files_from_a_name_on_are_those_of_deltas_store(self, spark, log, start):
        """The order is that of the names."""
        ours, deltas = (listed(spark, store, f"{log}/{start}") for store in ("BackfillLocalLogStore", "LocalLogStore"))

        assert ours == deltas
        assert bool(ours) == (start != "zz")

    def test_a_log_that_does_not_exist_is_reported_as_deltas_store_reports_it(self, spark, log):
        """Kernel concludes from this error that there is no table."""
        for store in ("BackfillLocalLogStore", "LocalLogStore"):
            with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
                listed(spark, store, f"{log}/none/{0:020d}.json")
