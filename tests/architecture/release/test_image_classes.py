"""The Spark image has smaller classes than the jars of the build, and every class that users name."""

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pyspark
import pytest
from conftest import JARS
from support.repository import ROOT, program

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
TOOL = ROOT / "build-tools" / "image" / "SlimJars.java"
NOT_IN_IMAGE = {
    "io.unitycatalog.spark.UCSingleCatalog",
    "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
}
"""Classes of pages with the jar that users have to add."""

SOURCE = """package shop;

public class Order {
    @interface Noted {}

    private final String name;

    public Order(String constructorName) { name = constructorName; }

    public static Order apply(String appliedName) { return new Order(appliedName); }

    @Noted
    String upper() {
        String localName = name.toUpperCase();
        if (localName.isEmpty()) throw new IllegalStateException("no name");
        return localName;
    }

    public static void main(String[] names) { System.out.println(apply(names[0]).upper()); }
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Classes as a library has them: with all tables for debuggers."""
    if shutil.which("javac") is None:
        pytest.skip("a Java without compiler cannot run SlimJars.java")
    folder = tmp_path_factory.mktemp("classes")
    Path(folder, "Order.java").write_text(SOURCE)
    subprocess.run(["javac", "-g", "-d", folder, folder / "Order.java"], check=True)
    return folder / "shop"


@pytest.fixture
def jar(compiled, tmp_path):
    """A signed jar of those classes, alone in its folder."""
    path = tmp_path / "jars" / "shop-1.0.jar"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        made.writestr("META-INF/SHOP.SF", "Signature-Version: 1.0\n")
        made.mkdir("shop")
        for file in compiled.glob("*.class"):
            made.write(file, f"shop/{file.name}")
    return path


def slim(folder):
    """Run the program as the Dockerfile does."""
    [asm] = SPARK_JARS.glob("xbean-asm9-shaded-*.jar")
    return subprocess.run(["java", "-cp", asm, TOOL, folder], capture_output=True, text=True, check=False)


def described(jar):
    """Return everything that Java's own disassembler finds in the class."""
    command = ["javap", "-v", "-p", "-cp", jar, "shop.Order"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class TestSlimJars:
    """Programs behave as before, and their tracebacks have the same lines."""

    def test_names_of_local_variables_are_removed(self, jar):
        """They are the largest part of a class that only debuggers read."""
        assert "localName" in described(jar)
        assert slim(jar.parent).returncode == 0
        assert "localName" not in described(jar)

    def test_names_that_jackson_and_json4s_read_stay(self, jar):
        """Both read names of parameters of constructors, and json4s those of `apply`, from the table of local variables."""
        slim(jar.parent)
        assert re.search(r"\d +1 +constructorName +Ljava/lang/String;", described(jar))
        assert re.search(r"\d +0 +appliedName +Ljava/lang/String;", described(jar))

    def test_annotations_that_reflection_cannot_return_are_removed(self, jar):
        """Their retention is CLASS."""
        assert "RuntimeInvisibleAnnotations" in described(jar)
        slim(jar.parent)
        assert "RuntimeInvisibleAnnotations" not in described(jar)

    def test_traceback_has_file_and_line(self, jar):
        """A user sends it with a report."""
        slim(jar.parent)
        ended = subprocess.run(["java", "-cp", jar, "shop.Order", ""], capture_output=True, text=True, check=False)
        assert "at shop.Order.upper(Order.java:15)" in ended.stderr

    def test_signature_is_removed_and_folders_stay(self, jar):
        """Java refuses a class whose signature does not fit. Jersey lists the folder of Spark's REST resources."""
        slim(jar.parent)
        with zipfile.ZipFile(jar) as content:
            assert content.testzip() is None
            assert sorted(content.namelist()) == [
                "META-INF/MANIFEST.MF", "shop/", "shop/Order$Noted.class", "shop/Order.class",
            ]  # fmt: skip

    def test_second_run_changes_nothing(self, jar):
        """The same jars give the same image."""
        slim(jar.parent)
        first = jar.read_bytes()
        slim(jar.parent)
        assert jar.read_bytes() == first

    def test_unknown_attribute_fails_the_build(self, jar):
        """It may refer to constants, which get other numbers."""
        with zipfile.ZipFile(jar) as old:
            content = old.read("shop/Order.class").replace(b"SourceFile", b"UnknownOne")
        with zipfile.ZipFile(jar, "w") as made:
            made.writestr("shop/Order.class", content)

        failed = slim(jar.parent)

        assert failed.returncode != 0
        assert "shop/Order.class has the unknown attribute UnknownOne" in failed.stderr


@pytest.fixture(scope="module")
def kept():
    """Return the entries of the image's jars: kept jars, without the parts that are left out."""
    tool = program("image/jars")
    jars = tool.read()
    files = {path.name: path for folder in (SPARK_JARS, JARS) for path in folder.glob("*.jar")}
    entries = {}
    for file in files.keys() - set(tool.removed(sorted(files), jars, "x86_64")):
        with zipfile.ZipFile(files[file]) as content:
            names = content.namelist()
        entries[files[file]] = set(names) - tool.left_out(names, tool.name_and_platform(file)[0], jars, "x86_64")
    return entries


class TestConfiguredClasses:
    """The build loads each class of a list; no other step notices that one is missing."""

    def test_jars_of_the_image_contain_each_class(self, kept):
        """A trimmed part or a removed jar may not take one away."""
        of_java = ("java.", "javax.", "org.ietf.", "com.sun.")
        image = set().union(*kept.values())
        absent = [
            name
            for name in program("image/configured_classes").names()
            if f"{name.replace('.', '/')}.class" not in image
        ]
        assert [name for name in absent if not name.startswith(of_java)] == []

    def test_list_has_the_classes_that_pages_tell_users_to_name(self):
        """Users copy these lines into their specs."""
        pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.yaml"), ROOT / "README.md"]
        pattern = re.compile(r"\b(?:org\.apache|software\.amazon|io\.delta|io\.unitycatalog)\.[\w.]*\.[A-Z]\w*")
        named = {name for page in pages for name in pattern.findall(page.read_text())}
        assert named - set(program("image/configured_classes").names()) == NOT_IN_IMAGE

    def test_class_that_does_not_load_is_named(self):
        """The message has Java's reason."""
        tool = program("image/configured_classes")
        assert tool.missing(["java.lang.String", "shop.Missing"], [SPARK_JARS]) == [
            "shop.Missing: java.lang.ClassNotFoundException: shop.Missing"
        ]


def test_no_class_of_the_image_draws_prints_or_plays(kept):
    """The image's Java is linked without the packages of java.desktop for that. The exceptions ask for a password in a window."""
    linked = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    [excluded] = re.findall(r"regex:/java\.desktop/(.*)\.\*'", linked)
    pattern = re.compile(excluded.encode())
    assert pattern.search(b"javax/swing/JFrame")
    assert not pattern.search(b"javax/swing/event/EventListenerList")

    naming = []
    for path, entries in kept.items():
        with zipfile.ZipFile(path) as content:
            classes = [entry for entry in entries if entry.endswith(".class")]
            naming += [entry for entry in classes if pattern.search(content.read(entry))]

    assert sorted(naming) == [
        "org/apache/ivy/util/CredentialsUtil$CredentialPanel.class",
        "org/apache/ivy/util/CredentialsUtil.class",
    ]
