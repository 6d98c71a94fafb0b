"""The bill of materials of an image: what is there, nothing that is not locked, the same text each time."""

import hashlib
import importlib.util
import json

import pytest
from support.repository import ROOT


@pytest.fixture
def sbom():
    """The program that the build of an image runs."""
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "build-tools" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def image(tmp_path):
    """Files as an image has them, and the words of the program for them."""
    for name, version in (("backfill_operator", "0.1.0"), ("py4j", "0.10.9.9"), ("Some.Thing", "2.0")):
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: not this\n")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "io.delta_delta-storage-4.4.0.jar").write_bytes(b"jar")
    (tmp_path / "lock").write_text("py4j==0.10.9.9 \\\n    --hash=sha256:00\nsome-thing==2.0 ; python_version < '4'\n")
    words = ["--name", "backfill-spark", "--lock", tmp_path / "lock", "--site-packages", tmp_path / "site"]
    return tmp_path, [*map(str, words), "--jars", str(tmp_path / "jars")]


class TestTheBill:
    def test_lists_packages_and_jars_and_has_the_version_of_the_product(self, sbom, image, capsys):
        """A scanner finds a package by its purl, and a jar by its checksum."""
        sbom.main(image[1])
        document = json.loads(capsys.readouterr().out)
        found = {one["name"]: one for one in document["components"]}

        assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", "0.1.0")
        assert found["some-thing"]["purl"] == "pkg:pypi/some-thing@2.0"
        [digest] = found["io.delta_delta-storage"]["hashes"]
        assert digest == {"alg": "SHA-256", "content": hashlib.sha256(b"jar").hexdigest()}

    def test_is_the_same_each_time(self, sbom, image, capsys):
        """Two builds of one source are compared by it."""
        texts = []
        for _ in range(2):
            sbom.main(image[1])
            texts.append(capsys.readouterr().out)

        assert texts[0] == texts[1]

    @pytest.mark.parametrize("lock", ["py4j==0.10.9.9\n", "py4j==0.10.9.9\nsome-thing==2.1\n"])
    def test_is_not_written_for_what_is_not_locked(self, sbom, image, lock):
        """The build ends, with the name."""
        folder, words = image
        (folder / "lock").write_text(lock)

        with pytest.raises(SystemExit, match=r"some-thing 2\.0 is installed and not locked"):
            sbom.main(words)

    def test_knows_debians_packages(self, sbom):
        """As dpkg lists them."""
        [one] = sbom.debian_packages("tini 0.19.0-1+b3 amd64\n")

        assert one["purl"] == "pkg:deb/debian/tini@0.19.0-1+b3?arch=amd64"
