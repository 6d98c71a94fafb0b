"""Delta's jars are fetched once, each by its checksum."""

import hashlib

import pytest
from support.endings import assert_ending

from backfill_core.errors import JarsMissingError
from backfill_spark.jvm import jars
from backfill_spark.settings import DELTA_PACKAGE

WORDS = {"one.jar": b"one", "two.jar": b"two"}


@pytest.fixture
def jar_list(tmp_path, monkeypatch):
    """Two jars with their checksums, and a resolver that finds none."""
    sums = tmp_path / "jars.sha256"
    sums.write_text("".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in WORDS.items()))
    monkeypatch.setattr(jars, "_resolve", lambda cache, names: "line of a resolver\n" * 31)
    return jars.JarList("two jars", sums)


@pytest.fixture
def cache(tmp_path):
    """A package cache that contains the jars."""
    folder = tmp_path / "ivy"
    folder.mkdir()
    for name, text in WORDS.items():
        (folder / name).write_bytes(text)
    return folder


class TestAFolderOfJars:
    def test_a_folder_is_filled_from_a_cache_and_then_left_unchanged(self, jar_list, cache, tmp_path, capfd):
        """A second start only compares the checksums."""
        folder = tmp_path / "user" / "jars"
        jar_list.fill(folder, [cache])
        jar_list.fill(folder, [])

        assert {file.name: file.read_bytes() for file in folder.iterdir()} == WORDS
        assert capfd.readouterr() == ("", "")

    def test_a_jar_of_another_content_is_not_taken(self, jar_list, cache, tmp_path, capfd):
        """A cache may contain anything. A jar that differs from the tested one is not used."""
        (cache / "two.jar").write_bytes(b"other")
        folder = tmp_path / "jars"

        with pytest.raises(JarsMissingError, match=r"two\.jar with the checksums of jars\.sha256") as refused:
            jar_list.fill(folder, [cache])
        assert_ending(refused.value, "JarsMissing")
        assert str(folder / "fetch.log") in refused.value.message
        assert (folder / "fetch.log").read_text().count("resolver") == 31
        assert capfd.readouterr().err == f"fetching two jars into {folder}, once\n"

    def test_a_truncated_jar_is_replaced(self, jar_list, cache, tmp_path):
        """An interrupted download must not break each later start."""
        folder = tmp_path / "jars"
        jar_list.fill(folder, [cache])
        (folder / "one.jar").write_bytes(b"o")
        (folder / "old.jar").write_bytes(b"another release's")
        jar_list.fill(folder, [cache])

        assert {file.name for file in folder.iterdir()} == set(WORDS)
        assert jar_list.missing(folder) == []

    def test_a_folder_that_cannot_be_made_is_an_error(self, jar_list, cache, tmp_path):
        """The message names the folder."""
        (tmp_path / "file").write_text("")

        with pytest.raises(JarsMissingError, match="cannot be put into"):
            jar_list.fill(tmp_path / "file" / "jars", [cache])


@pytest.mark.parametrize(
    ("name", "fetched"),
    [
        ("io.delta_delta-spark_4.2_2.13-4.4.0.jar", DELTA_PACKAGE),
        (
            "org.apache.spark_spark-sql-kafka-0-10_2.13-4.2.0.jar",
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        ),
        ("com.github.luben_zstd-jni-1.5.6-4.jar", "com.github.luben:zstd-jni:1.5.6-4"),
        ("io.netty_netty-buffer-4.1.105.Final.jar", "io.netty:netty-buffer:4.1.105.Final"),
        ("commons-validator_commons-validator-1.7.jar", "commons-validator:commons-validator:1.7"),
        ("org.apache.kafka_kafka_2.13-3.9.1.jar", "org.apache.kafka:kafka_2.13:3.9.1"),
    ],
)
def test_a_jar_s_name_gives_the_package_to_fetch(name, fetched):
    """The list of checksums is the only list. If a name is parsed wrongly, a new machine cannot fetch the jar."""
    assert jars.coordinates(name) == fetched
