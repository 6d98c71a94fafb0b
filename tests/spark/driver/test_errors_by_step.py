"""Each error of each step has its reason: a test provokes every row of the table in docs/errors.md.

Some states cannot be produced on a machine, such as a full disk or a network outage. There the test raises the JVM's own exception.
"""

import shutil
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType
from support.endings import assert_ending
from support.logs_of_others.rewritten import rewrite_log, with_bounds
from support.repository import ROOT
from support.tables.jobs import forget_before
from support.tables.logs import LOST_STATE, forget_sums, with_other_column, without_action

from backfill_core.errors import BackfillError
from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_spark.delta.location import location, target_location
from backfill_spark.jvm.gateway import java
from backfill_spark.sinks.delta.failures import explain_commit, explain_making
from backfill_spark.sources.delta.failures import explain_look
from backfill_spark.sources.delta.source import DeltaTableSource

TABLE = tomllib.loads((ROOT / "build-tools" / "raised.toml").read_text())
ROWS = {f"{step}: {name}": row[1] for step, rows in TABLE.items() for name, row in rows.items()}
FUTURE = {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}
OUTSIDE = {"path": "../t/x.parquet", "size": 9, "partitionValues": {}, "modificationTime": 1, "dataChange": True}
FEATURE = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}}


def pin_damaged(change):
    def provoke(world):
        source = world.source(changed=True)
        forget_sums(world.at)
        change(world)
        source.pin(None)

    return provoke


def cut(file, size=100):
    file.write_bytes(file.read_bytes()[:size])


def retype(file):
    """Write the rows of the file's table over the file, each value as a string."""
    table = next(folder for folder in file.parents if (folder / "_delta_log").is_dir())
    rows = QueryBuilder().register("t", DeltaTable(table))
    columns = ", ".join(
        f'CAST("{field.name}" AS STRING) AS "{field.name}"' for field in DeltaTable(table).schema().fields
    )
    made = table.with_name("retyped")
    write_deltalake(str(made), rows.execute(f"SELECT {columns} FROM t").read_all())
    file.write_bytes(next(made.glob("*.parquet")).read_bytes())


def cut_checkpoint(world):
    forget_before(world.spark, world.at, 1)
    forget_sums(world.at)
    cut(next(Path(world.at, "_delta_log").glob("*.checkpoint.parquet")))


def cleaned_version(world):
    source = world.source(changed=True)
    forget_before(world.spark, world.at, 1)
    source.pin(0)


def other_checksum(world):
    """Spark caches the session's log, and Kernel reads the checksum file."""
    world.source().pin(None)
    with_other_column(world.at, "amount", "sum")
    DeltaTableSource(world.spark, world.at, key=("id",)).pin(None)


def lost_state(path, version):
    """Delta's message names no table, so source and target each rebuild their own state."""

    def provoke(world):
        world.target()
        world.source()
        without_action(world.spark, path(world), "protocol")
        job_raises("java.lang.IllegalStateException", LOST_STATE.format(version))(world)

    return provoke


def missing_commit(world, path, version):
    world.commit(path, version + 1, {"commitInfo": {}})


def target_log(version, *actions):
    def provoke(world):
        world.target()
        forget_sums(world.to)
        world.commit(world.to, version, *actions).touch()
        world.check()

    return provoke


def explained_by(explain, name, message, **more):
    return lambda world: world.fail(explain(world.java(name, message), path=world.to, **more))


def job_raises(name, message):
    return lambda world: world.job(lambda: world.fail(world.java(name, message)))


def staged(damage):
    def provoke(world):
        source = world.source()
        source.pin(None)
        for file in world.data(world.at):
            damage(file)
        world.job(lambda: world.copy(source))

    return provoke


def changes(damage):
    def provoke(world):
        source = world.source(changed=True)
        source.pin(0)
        damage(world)
        source.check_versions(0, 1)
        world.job(lambda: source.changes(0, 1).collect())

    return provoke


def feed(damage):
    return changes(lambda world: [damage(file) for file in Path(world.at, "_change_data").glob("*.parquet")])


def wrong_sum(world):
    """Hadoop writes a checksum file next to each of its files."""
    java(world.spark).org.apache.hadoop.fs.Path
    file = world.commit(world.at, 1)
    Path(file.parent, f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0" + b"\1" * 64)


def sealed(damage):
    def provoke(world):
        _, committer = world.target()
        forget_sums(world.to)
        damage(world)
        committer.seal(2, (), "s")

    return provoke


def made_again(world):
    shutil.rmtree(world.to)
    world.sink().prepare(StructType.fromDDL("id LONG, n LONG"))


def merged(damage):
    def provoke(world):
        sink, _ = world.target(mode="Upsert")
        damage(world)
        world.job(lambda: world.merge(sink))

    return provoke


def column_dropped(world):
    shutil.rmtree(world.to)
    world.sink(mode="Upsert", key=("id",)).prepare(StructType.fromDDL("id LONG"))


def statistics_without_the_rows(world):
    """Read a range of a key that starts after the rows of a file and before the bounds in its statistics."""
    source = world.source()
    rewrite_log(world.spark, world.at, with_bounds("id", 100, 200))
    source.pin(None)
    order = KeyOrder((KeyColumn("id", "long"),))
    world.job(lambda: source.key_range(0, order, (50,), None).collect())


def bad_partition(mode, value):
    """Write a file whose partition folder has the value in its name; `value` is SQL."""

    def provoke(world):
        sink = world.sink(mode=mode, key=("id",), partition_by=("p",))
        sink.prepare(StructType.fromDDL("id LONG, p STRING"))
        rows = world.spark.range(1).selectExpr("id", f"{value} AS p")
        if mode == "Append":
            world.job(lambda: sink.stage(rows, attempt=1, work_id=1))
        else:
            world.job(lambda: world.merge(sink, f"{value} AS p"))

    return provoke


def verified_target(damage):
    def provoke(world):
        sink, _ = world.target()
        for file in world.data(world.to):
            damage(file)
        world.job(lambda: sink.at(1).selectExpr("sum(hash(*))").collect())

    return provoke


def verified_source(world):
    source = world.source(changed=True)
    for file in world.data(world.at):
        file.unlink()
    world.job(lambda: source_at(source))


def source_at(source):
    source.pin(None)
    source.at(0).selectExpr("sum(hash(*))").collect()


LONG, ONE = "ü" * 300, StructType().add("id", LongType())
"""A name of more than 255 bytes, and the schema of a table with one column."""

IO = "java.io.IOException"
DENIED = "org.apache.hadoop.security.AccessControlException"
SLOW = "java.net.SocketTimeoutException"
FULL, READ_ONLY = "No space left on device", "/lake/t: Read-only file system"
QUICKER = "io.delta.kernel.exceptions.ConcurrentWriteException"
KERNEL = "io.delta.kernel.exceptions.KernelException"
REPLACES = "Cannot add and remove data in the same transaction when Change Data Feed is enabled on table /lake/t."

PROVOKE = {
    "pin: no-table": lambda w: DeltaTableSource(w.spark, w.at, key=()).pin(None),
    "pin: no-file-system": lambda w: location(w.spark, "foo://a/b", None),
    "pin: no-access": explained_by(explain_look, DENIED, "Permission denied"),
    "pin: no-answer": explained_by(explain_look, SLOW, "no"),
    "pin: future-protocol": pin_damaged(lambda w: w.commit(w.at, 2, FUTURE)),
    "pin: future-feature": pin_damaged(lambda w: w.commit(w.at, 2, FEATURE)),
    "pin: cut-commit": pin_damaged(lambda w: cut(w.commit(w.at, 1))),
    "pin: empty-commit": pin_damaged(lambda w: cut(w.commit(w.at, 1), 0)),
    "pin: missing-commit": pin_damaged(lambda w: missing_commit(w, w.at, 2)),
    "pin: no-json": pin_damaged(lambda w: w.commit(w.at, 1).write_text("# a script\n")),
    "pin: odd-field": pin_damaged(lambda w: w.commit(w.at, 2, {"add": OUTSIDE | {"path": "x", "size": "many"}})),
    "pin: no-protocol": pin_damaged(lambda w: without_action(w.spark, w.at, "protocol")),
    "pin: no-metadata": pin_damaged(lambda w: without_action(w.spark, w.at, "metaData")),
    "pin: other-checksum": other_checksum,
    "pin: outside": pin_damaged(lambda w: w.commit(w.at, 2, {"add": OUTSIDE})),
    "pin: cut-checkpoint": pin_damaged(cut_checkpoint),
    "pin: cleaned-version": cleaned_version,
    "check: root": lambda w: target_location(w.spark, "/", None),
    "check: below-a-file": lambda w: (Path(w.to).write_text("x"), w.check(path=f"{w.to}/t")),
    "check: odd-name": lambda w: w.check("`(amount * 2)` LONG"),
    "check: doubled-name": lambda w: w.check("a LONG, A LONG"),
    "check: long-path": lambda w: (w.check(path=f"{w.to}/{LONG}"), w.sink(path=f"{w.to}/{LONG}").prepare(ONE)),
    "check: interval": lambda w: w.check("a STRUCT<b: INTERVAL DAY TO SECOND>, c LONG"),
    "check: time": lambda w: w.sink().check(
        w.spark.sql("SELECT TIME'10:00:00' AS at").schema, source_path="/no", has_state=False
    ),
    "check: all-partitions": lambda w: w.check(partition_by=("id", "n")),
    "check: cluster-by-struct": lambda w: w.check("a STRUCT<b: INT>, c LONG", cluster_by=("a",)),
    "check: cluster-by-five": lambda w: w.check(
        "a LONG, b LONG, c LONG, d LONG, e LONG", cluster_by=("a", "b", "c", "d", "e")
    ),
    "check: cluster-without-statistics": lambda w: w.check(
        ", ".join(f"c{at} LONG" for at in range(33)), cluster_by=("c32",)
    ),
    "check: unknown-property": lambda w: w.check(properties={"delta.nosuch": "1"}),
    "check: bad-property": lambda w: w.check(properties={"delta.enableDeletionVectors": "maybe"}),
    "check: reader-version": lambda w: w.check(properties={"delta.minReaderVersion": "99"}),
    "check: unknown-feature": lambda w: w.check(properties={"delta.feature.nosuch": "supported"}),
    "check: foreign-files": lambda w: (Path(w.to, "x").mkdir(parents=True), w.check()),
    "check: future-protocol": target_log(2, FUTURE),
    "check: missing-commit": target_log(3, {"commitInfo": {}}),
    "check: empty-commit": target_log(2),
    "create: refused": lambda w: w.sink(properties={"delta.dataSkippingStatsColumns": "nosuch"}).prepare(
        StructType.fromDDL("id LONG")
    ),
    "create: no-access": explained_by(explain_making, DENIED, "Permission denied"),
    "create: read-only": explained_by(explain_making, IO, READ_ONLY),
    "create: no-room": explained_by(explain_making, IO, FULL),
    "stage: file-gone": staged(lambda file: file.unlink()),
    "stage: file-cut": staged(cut),
    "stage: file-of-other-types": staged(retype),
    "stage: row": lambda w: w.job(lambda: w.spark.range(1).selectExpr("1 / id").collect(), "1 / id"),
    "stage: row-of-ours": lambda w: w.job(lambda: w.spark.range(1).select(1 / F.col("id")).collect()),
    "stage: defect": lambda w: w.job(lambda: datetime.max + timedelta(1)),
    "stage: statistics": statistics_without_the_rows,
    "stage: no-room": job_raises(IO, FULL),
    "stage: read-only": job_raises(IO, READ_ONLY),
    "stage: long-partition": bad_partition("Append", f"'{LONG}'"),
    "stage: null-s-name": bad_partition("Append", "'__HIVE_DEFAULT_PARTITION__'"),
    "stage: nul": bad_partition("Append", "decode(unhex('006e'), 'UTF-8')"),
    "stage: long-key": job_raises(
        IO, "Your key is too long (Service: S3, Status Code: 400, Error Code: KeyTooLongError)"
    ),
    "stage: no-answer": job_raises(SLOW, "Read timed out"),
    "stage: lost-state": lost_state(lambda w: w.at, 0),
    "stage: stopped": job_raises("java.lang.IllegalStateException", "Cannot call methods on a stopped SparkContext."),
    "changes: commit-gone": changes(lambda w: w.commit(w.at, 1).unlink()),
    "changes: commit-cut": changes(lambda w: cut(w.commit(w.at, 1))),
    "changes: commit-checksum": changes(wrong_sum),
    "changes: feed-gone": feed(lambda file: file.unlink()),
    "changes: feed-cut": feed(cut),
    "seal: dropped": sealed(lambda w: shutil.rmtree(w.to)),
    "seal: made-again": sealed(made_again),
    "seal: future-protocol": sealed(lambda w: w.commit(w.to, 2, FUTURE)),
    "seal: missing-commit": sealed(lambda w: missing_commit(w, w.to, 2)),
    "seal: newer-attempt": sealed(lambda w: w.committer().seal(9, (), "s")),
    "seal: no-room": lambda w: w.fail(explain_commit(w.java(IO, FULL), w.to)),
    "seal: change-feed": lambda w: w.fail(explain_commit(w.java(KERNEL, REPLACES), w.to)),
    "seal: quicker": lambda w: w.fail(explain_commit(w.java(QUICKER, "no"), w.to)),
    "merge: dropped": merged(lambda w: shutil.rmtree(w.to)),
    "merge: file-gone": merged(lambda w: [file.unlink() for file in w.data(w.to)]),
    "merge: file-cut": merged(lambda w: [cut(file) for file in w.data(w.to)]),
    "merge: column-dropped": merged(column_dropped),
    "merge: lost-state": lost_state(lambda w: w.to, 1),
    "merge: long-partition": bad_partition("Upsert", f"'{LONG}'"),
    "merge: null-s-name": bad_partition("Upsert", "'__HIVE_DEFAULT_PARTITION__'"),
    "merge: nul": bad_partition("Upsert", "decode(unhex('006e'), 'UTF-8')"),
    "merge: quicker": job_raises("io.delta.exceptions.ConcurrentAppendException", "no"),
    "verify: file-gone": verified_target(lambda file: file.unlink()),
    "verify: file-of-other-types": verified_target(retype),
    "verify: source-gone": verified_source,
}


class TestEachHasItsReason:
    """A mistake in a spec or a table never counts as transient."""

    @pytest.mark.parametrize("row", ROWS)
    def test_each_row_of_the_table_has_its_reason(self, world, row):
        """A user searches for the reason and follows the hint."""
        with pytest.raises(BackfillError) as raised:
            PROVOKE[row](world)

        error = raised.value
        assert error.reason == ROWS[row], error
        assert_ending(error, ROWS[row])
        assert "Py4JJavaError" not in error.message
        assert "\tat " not in error.message
        assert "\n" not in error.message
        assert "ü" not in error.message or "path" in error.message

    def test_the_table_and_this_suite_have_the_same_rows(self):
        """A row without a test is a claim."""
        assert PROVOKE.keys() == ROWS.keys()
