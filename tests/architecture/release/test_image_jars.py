"""The images have the jars and the programs of two lists; a jar that the list does not contain, and give a reason for, fails the build."""

import zipfile
from pathlib import Path

import pyspark
import pytest
from support.repository import ROOT, program

MACHINE = "x86_64"


@pytest.fixture
def tool():
    """The program that the build of the image runs."""
    return program("image/jars")


def pinned():
    """Return the jars that `make setup` fetches."""
    return [line.split()[1] for line in (ROOT / "requirements" / "jars.sha256").read_text().splitlines()]


def installed():
    """Return the jars that the build starts with: pinned ones, and those of pyspark."""
    return [*pinned(), *(path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))]


def jar(path, **entries):
    """Write a jar; the name of an entry is given with `_` for `/`."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in entries.items():
            made.writestr(name.replace("_", "/"), content)


class TestTheList:
    """Every jar has a reason, so a new version of Spark brings nothing unseen."""

    def test_list_names_each_jar_once_and_no_other(self, tool):
        """Kept and removed jars together are exactly the jars of pyspark and of the lock file."""
        jars = tool.read()
        names = {tool.name_and_platform(file)[0] for file in installed()}

        assert names - jars.keep - jars.drop == set()
        assert (jars.keep | jars.drop) - names == set()

    def test_image_keeps_the_jars_of_the_lock_file(self, tool):
        """They were chosen one by one already."""
        removed = tool.removed(installed(), tool.read(), MACHINE)

        assert set(removed) & set(pinned()) == set()

    def test_parts_that_are_left_out_exist_in_the_jars(self, tool):
        """A path without an entry fails the build, because the jar of another version may have moved it."""
        jars, folder = tool.read(), Path(pyspark.__file__).parent / "jars"
        for name in jars.without.keys() | jars.unnamed.keys() | jars.natives.keys():
            [file] = [path for path in folder.glob(f"{name}-*.jar") if tool.name_and_platform(path.name)[0] == name]
            with zipfile.ZipFile(file) as content:
                assert tool.left_out(content.namelist(), name, jars, MACHINE)
                assert tool.left_out(content.namelist(), name, jars, "aarch64")


class TestTheCommonLayer:
    """Programs that nothing starts are removed."""

    @pytest.mark.parametrize(
        ("program", "place"),
        [
            ("openssl", "operator/backfill_operator/drivers/certificates.py"),
            ("mktemp", "spark_app/entrypoint.sh"),
            ("sort", "spark_app/entrypoint.sh"),
            ("id", "spark_app/entrypoint.sh"),
            ("env", "spark_app/backfill_spark/jvm/java_process.py"),
            ("tini", "Dockerfile"),
        ],
    )
    def test_programs_that_the_product_starts_stay(self, program, place):
        """A missing one is noticed only on a cluster."""
        kept = (ROOT / "build-tools" / "image" / "slim.sh").read_text().partition("kept='")[2].partition("'")[0].split()

        assert program in (ROOT / place).read_text()
        assert program in kept


class TestTheBuild:
    """The folder is checked before anything is removed."""

    def test_unknown_jar_and_missing_jar_are_named(self, tool):
        """The message has the table to edit."""
        jars = tool.JarList(frozenset({"spark", "delta"}), frozenset({"hive"}), {}, {}, frozenset(), {})

        with pytest.raises(tool.JarListError) as refused:
            tool.removed(["spark-4.2.0.jar", "odd-1.0.jar"], jars, MACHINE)
        assert "odd-1.0.jar is not in jars.toml: add it to a table with a reason" in str(refused.value)
        assert "delta is in jars.toml, and there is no such jar" in str(refused.value)

    def test_jars_for_other_machines_are_removed(self, tool):
        """A name ends with its platform."""
        jars = tool.JarList(frozenset({"spark", "tls"}), frozenset({"hive-exec"}), {}, {}, frozenset(), {})
        files = ["spark-4.2.0.jar", "hive-exec-2.3.10-core.jar", "tls-2.0.Final-linux-x86_64.jar", "tls-2.0.Final-linux-aarch_64.jar",
                 "tls-2.0.Final-osx-x86_64.jar"]  # fmt: skip

        assert tool.removed(files, jars, "x86_64") == [files[1], files[3], files[4]]
        assert tool.removed(files, jars, "aarch64") == [files[1], files[2], files[4]]

    def test_services_lose_the_classes_that_are_left_out(self, tool, tmp_path):
        """Java ends with an error if a list of services names a class that does not exist. Folders stay."""
        path = tmp_path / "hadoop-1.0.jar"
        jar(path, yarn_Token="x", hdfs_Token="y", **{"META-INF_services_Token": "yarn.Token\nhdfs.Token\n"})
        with zipfile.ZipFile(path, "a") as more:
            more.writestr("yarn/Token.class", "x")
            more.mkdir("hdfs")

        tool.rewrite(path, {"yarn/Token", "yarn/Token.class"})

        with zipfile.ZipFile(path) as left:
            assert set(left.namelist()) == {"hdfs/Token", "hdfs/", "META-INF/services/Token"}
            assert left.read("META-INF/services/Token") == b"hdfs.Token\n"

    def test_entries_that_name_a_removed_package_are_found(self, tool, tmp_path):
        """A class has its path, a configuration its name with dots; entries that are removed too do not count."""
        path = tmp_path / "hadoop-1.0.jar"
        jar(
            path,
            own_guava_Lists="own/guava/Maps",
            a_User="Lown/guava/Lists;",
            a_list="own.guava.Lists",
            a_Other="com/own/guavas",
        )

        assert tool.naming(path, {"own/guava/Lists"}, {"own/guava/"}) == ["a/User", "a/list"]

    def test_package_that_an_entry_names_fails_the_build(self, tool, tmp_path, monkeypatch):
        """An update of a library may use it, and the folder stays unchanged."""
        jars = tool.JarList(frozenset({"hadoop"}), frozenset(), {}, {"hadoop": ("own/guava/",)}, frozenset(), {})
        monkeypatch.setattr(tool, "read", lambda: jars)
        path = tmp_path / "hadoop-1.0.jar"
        jar(path, own_guava_Lists="x", a_User="Lown/guava/Lists;")
        before = path.read_bytes()

        with pytest.raises(tool.JarListError, match=r"hadoop-1\.0\.jar a/User"):
            tool.reduce(tmp_path, MACHINE)
        assert path.read_bytes() == before

    def test_entries_of_every_jar_are_left_out(self, tool):
        """A jar without them is no error."""
        jars = tool.JarList(frozenset({"pods", "logs"}), frozenset(), {}, {}, frozenset({"META-INF/index"}), {})

        assert tool.left_out(["Pod.class", "META-INF/index"], "pods", jars, MACHINE) == {"META-INF/index"}
        assert tool.left_out(["Log.class"], "logs", jars, MACHINE) == set()

    def test_only_libraries_of_the_machine_stay(self, tool):
        """A machine without libraries in the jar fails the build."""
        jars = tool.JarList(frozenset({"zstd"}), frozenset(), {}, {}, frozenset(), {"zstd": {"x86_64": "linux/amd64/"}})
        entries = ["Zstd.class", "linux/amd64/z.so", "win/amd64/z.dll", "darwin/aarch64/z.dylib"]

        assert tool.left_out(entries, "zstd", jars, "x86_64") == {"win/amd64/z.dll", "darwin/aarch64/z.dylib"}
        with pytest.raises(tool.JarListError, match="no folder of riscv64"):
            tool.left_out(entries, "zstd", jars, "riscv64")
