"""Whole jobs from one bucket to another, on a real S3 server; the targets are read by delta-rs."""

import re

import pytest
from py4j.protocol import Py4JJavaError
from support.stores.fault_proxy import Fault

from backfill_spark.jvm.gateway import hadoop_conf, java

VERSION = re.compile(r"/_delta_log/\d{20}\.json")


COPIED = {"select": ["*"]}
DECODED = {"select": ["id", "kind + 0 AS kind", "note"]}
ODD = "/a b+d=ü/t"


@pytest.mark.parametrize("transform", [COPIED, DECODED])
@pytest.mark.parametrize("version", [0, 2])
def test_a_snapshot_and_its_changes_equal_the_source(orders, place, run, rows, transform, version):
    """Files are copied or decoded, from an old version or the newest: the target equals the source."""
    outcome = run(orders, place("there"), transform=transform, source={"version": version})

    assert (outcome.message, outcome.outcome) == ("", "Complete")
    assert outcome.receipt.equal
    assert rows(place("there")) == rows(orders)


def test_a_replica_equals_its_source(orders, place, run, rows):
    """Files and vectors are copied, and the log is shipped."""
    outcome = run(orders, place("there"), strategy={"type": "Replica"}, source={"version": 0, "key": []})

    assert (outcome.message, outcome.outcome) == ("", "Complete")
    assert outcome.receipt.equal
    assert rows(place("there")) == rows(orders)


@pytest.mark.parametrize("transform", [COPIED, DECODED])
def test_a_path_with_special_characters_is_a_valid_target(orders, place, run, rows, transform):
    """The keys of all objects contain a space, a plus, an equals sign and a non-ASCII letter.

    A percent sign, and a deletion vector under such a path, are left out: delta-rs requests another key for them.
    """
    target = {"properties": {"delta.enableDeletionVectors": "false"}}
    outcome = run(orders, place("there") + ODD, transform=transform, source={"version": 0}, target=target)

    assert (outcome.message, outcome.outcome) == ("", "Complete")
    assert rows(place("there") + ODD) == rows(orders)


def test_requests_to_a_busy_store_are_retried(orders, place, run, rows, proxy):
    """The store answers 503 SlowDown to reads and writes, of data and of the log: no row is lost, and no row is doubled."""
    faults = [Fault("slow down", "PUT", "/there/", 4), Fault("slow down", "GET", "/here/", 4)]
    proxy.faults.extend(faults)

    outcome = run(orders, place("there"), transform=COPIED, source={"version": 0})

    assert (outcome.message, outcome.outcome) == ("", "Complete")
    assert [fault.met for fault in faults] == [4, 4]
    assert rows(place("there")) == rows(orders)


class TestTheLog:
    """Each version has one writer, whatever happens to answers."""

    @pytest.mark.parametrize("strategy", ["Snapshot", "Replica"])
    def test_each_version_is_written_with_a_condition(self, orders, place, run, proxy, strategy):
        """Every writer sets the condition: the creation of the table, a commit of files, a MERGE."""
        proxy.plain_puts.clear()
        source = {"version": 0} | ({"key": []} if strategy == "Replica" else {})

        outcome = run(orders, place("there"), strategy={"type": strategy}, source=source)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert [path for path in proxy.plain_puts if VERSION.search(path)] == []

    def test_the_second_writer_of_a_version_is_rejected(self, spark, place):
        """The server itself rejects it, not a lock of this process: both writers checked before either wrote."""
        jvm, conf = java(spark), hadoop_conf(spark)
        path = jvm.org.apache.hadoop.fs.Path(f"{place('there')}/{'0' * 19}1.json")
        store = jvm.io.delta.storage.BackfillS3LogStore(conf)
        store.write(path, jvm.java.util.List.of("first").iterator(), False, conf)
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            store.write(path, jvm.java.util.List.of("the second").iterator(), False, conf)
        assert path.getFileSystem(conf).getFileStatus(path).getLen() == len("first\n")

        store.write(path, jvm.java.util.List.of("the third").iterator(), True, conf)
        assert path.getFileSystem(conf).getFileStatus(path).getLen() == len("the third\n")

    def test_a_store_that_ignores_the_condition_is_rejected(self, orders, place, run, proxy):
        """The job fails before it writes anything."""
        proxy.is_old = True
        try:
            outcome = run(orders, place("there"))
        finally:
            proxy.is_old = False

        assert (outcome.outcome, outcome.reason) == ("Failed", "UnsupportedTargetFeature")
        assert "If-None-Match" in outcome.message

    def test_a_commit_whose_answer_is_lost_is_not_made_twice(self, orders, place, run, rows, proxy):
        """The store has the commit, and the job does not know: it reads the log again, and continues from there."""
        lost = Fault("lost answer", "PUT", f"{place('there').removeprefix('s3a:/')}/_delta_log/0", 3)
        proxy.faults.append(lost)

        outcome = run(orders, place("there"), transform=COPIED, source={"version": 0})
        while outcome.outcome == "Retry":
            outcome = run(orders, place("there"), transform=COPIED, source={"version": 0})

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert lost.met == 3
        assert rows(place("there")) == rows(orders)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_missing_bucket_is_named_and_not_retried(orders, place, run, side):
    """A missing bucket on either side is an invalid spec; once it was reported as a damaged file or an outage (fault K9)."""
    outcome = run("s3a://nowhere/t", place("there")) if side == "source" else run(orders, "s3a://nowhere/t")

    assert (outcome.outcome, outcome.reason) == ("Failed", "InvalidSpec")
    assert f"spec.{side}.delta.path: bucket nowhere does not exist" in outcome.message
