"""Listings of a long log on a local disk, for Delta Kernel's commits."""

import pytest
from py4j.protocol import Py4JJavaError

from backfill_spark.jvm.gateway import java
from backfill_spark.jvm.log_stores.kernel import FAST_LOCAL, LOCAL_SETTING, LONG_LOG, kernel_settings, list_long_logs

NAMES = [
    *(f"{version:020d}.{kind}" for version in (7, 8, 9, 10) for kind in ("json", "crc")), f"{8:020d}.checkpoint.parquet",
    ".00000000000000000009.json.crc", "_last_checkpoint", "_sidecars/a.parquet", "a name with % and é.json",
]  # fmt: skip
STARTS = [f"{0:020d}.", f"{8:020d}.checkpoint", f"{9:020d}.json", f"{11:020d}.", "_last_checkpoint", "zz"]


def listed(spark, store, path):
    """Return path, size and modification time of each file that a log store lists from a path on."""
    conf = kernel_settings(spark)
    files = getattr(java(spark).io.delta.storage, store)(conf).listFrom(
        java(spark).org.apache.hadoop.fs.Path(path), conf
    )
    found = []
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
    list_long_logs(spark, kernel_settings(spark), newest=LONG_LOG)
    return folder


class TestTheListingOfALongLog:
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


class TestTheChoiceOfALogStore:
    """The class is compiled only if it saves time, and never replaces a user's choice."""

    def test_a_short_log_needs_no_compiled_class(self, spark):
        """Most jobs end before."""
        conf = kernel_settings(spark)
        before = conf.get(LOCAL_SETTING)
        list_long_logs(spark, conf, newest=LONG_LOG - 1)
        short = conf.get(LOCAL_SETTING)
        list_long_logs(spark, conf, newest=LONG_LOG)

        assert (short, conf.get(LOCAL_SETTING)) == (before, FAST_LOCAL)

    def test_a_log_store_of_the_session_stays(self, spark):
        """It may write a log in another way."""
        conf = kernel_settings(spark)
        conf.set(LOCAL_SETTING, "io.delta.storage.HDFSLogStore")
        list_long_logs(spark, conf, newest=LONG_LOG)

        assert conf.get(LOCAL_SETTING) == "io.delta.storage.HDFSLogStore"
