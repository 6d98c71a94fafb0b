"""Location of a table: each spelling of a place gives the same table, or an error with the field."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.tables.jobs import job, make_orders

from backfill_core.errors import InvalidSpecError, TargetIsSourceError, TransientError
from backfill_core.log_shipping.file_locations import in_one_store
from backfill_spark import sinks, sources
from backfill_spark.delta.location import location, one_spelling, target_location


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder, a link to it, and the current folder inside it."""
    folder = tmp_path / "lake ü"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def spellings(folder: Path, name: str) -> dict[str, str]:
    link = folder.parent / "link"
    return {
        "plain": f"{folder}/{name}",
        "file:/": f"file:{folder}/{name}",
        "file:///": f"file://{folder}/{name}/",
        "relative": name,
        "home": f"~/{name}",
        "link": f"{link}/{name}",
        "link, as a URI": f"file:{link}//{name}",
        "parent": f"{folder}/none/../{name}",
        "two slashes": f"/{folder}/{name}",
    }


class TestOnePlace:
    """A table that is made at another place is a copy that is never found."""

    def test_each_spelling_is_the_same_place(self, spark, place):
        """This holds for sources and for targets."""
        places = {spelling: one_spelling(spark, text, field="f") for spelling, text in spellings(place, "x").items()}

        assert set(places.values()) == {str(place / "x")}, places

    def test_a_target_with_a_uri_is_made_at_its_place(self, spark, place):
        """Java and Spark print places in this form. No other folder is made."""
        make_orders(spark, str(place / "s"), 10, files=1)
        for name in ("a", "b"):
            backfill = job(f"file:{place}/s", f"file:{'//' * (name == 'b')}{place}/{name}")
            sink = sinks.discover()["Delta"].open(spark, backfill)
            source = sources.discover()["Delta"].open(spark, backfill.spec.source)
            schema = source.pin(None).schema
            sink.check(schema, source_path=source.path, has_state=False)
            sink.prepare(schema)

        assert DeltaTable(str(place / "a")).schema() == DeltaTable(str(place / "b")).schema()
        assert sorted(entry.name for entry in place.iterdir()) == ["a", "b", "s"]

    def test_source_and_target_in_two_spellings_are_one(self, spark, place):
        """A job that reads its own target must be refused."""
        make_orders(spark, str(place / "s"), 10, files=1)
        for text in spellings(place, "s").values():
            backfill = job(str(place / "s"), text)
            sink = sinks.discover()["Delta"].open(spark, backfill)
            schema = spark.read.format("delta").load(str(place / "s")).schema
            with pytest.raises(TargetIsSourceError):
                sink.check(schema, source_path=str(place / "s"), has_state=False)

    def test_one_object_store_has_two_schemes(self):
        """`s3` and `s3a` name the same bucket."""
        assert in_one_store("s3://b/t") == in_one_store("s3a://b/t") == "s3a://b/t"
        assert in_one_store("/lake/x") == "/lake/x"

    def test_a_name_in_the_catalog_is_resolved_too(self, spark, tmp_path):
        """Java escapes a folder's name in a URI, but the folder does not have the escaped name."""
        folder = tmp_path / "a b%41"
        spark.sql(f"CREATE DATABASE odd LOCATION '{folder}'")
        try:
            assert target_location(spark, None, "odd.t") == f"{folder}/t"
            spark.sql("CREATE TABLE odd.t (id LONG) USING delta")
            assert target_location(spark, None, "odd.t") == location(spark, None, "odd.t") == f"{folder}/t"
        finally:
            spark.sql("DROP DATABASE odd CASCADE")


class TestNoPlace:
    """The error names the field and is never transient."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("foo://a/b", "no file system for foo"),
            ("dbfs:/x", "no file system for dbfs"),
            ("s3://b/x", "such as s3a"),
            ("C:/x", "no file system for c"),
            ("http://a/b", "http has no folders"),
            ("file:x", "relative"),
            ("~no_such_user/x", "cannot be followed"),
            ("/", "root of a file system"),
            ("file:///..", "root of a file system"),
            ("hdfs:/x", "no host"),
        ],
    )
    def test_a_wrong_place_of_a_target_names_its_field(self, spark, text, message):
        """The user must learn which field to change."""
        with pytest.raises(InvalidSpecError, match=message) as refusal:
            target_location(spark, text, None)
        assert refusal.value.message.startswith("spec.target.delta.path: ")
        assert refusal.value.hint

    def test_a_wrong_place_of_a_source_names_its_field(self, spark):
        """The source has a separate field."""
        with pytest.raises(InvalidSpecError, match=r"spec\.source\.delta\.path: .*no file system"):
            location(spark, "foo://a/b", None)

    @pytest.mark.parametrize(("text", "jar"), [("gs://b/x", "gcs-connector"), ("abfss://c@a/x", "hadoop-azure")])
    def test_a_missing_jar_is_named(self, spark, text, jar):
        """The name of the class that Java misses does not help a user."""
        with pytest.raises(InvalidSpecError) as refusal:
            location(spark, text, None)
        assert jar in refusal.value.hint

    def test_a_host_that_is_not_found_may_be_found_later(self, spark):
        """A name server that does not answer must not end a job."""
        with pytest.raises(TransientError, match=r"spec\.source\.delta\.path"):
            location(spark, "hdfs://no-such-host.invalid:1/x", None)
