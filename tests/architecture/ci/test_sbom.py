"""The bill of materials of an image: complete, without packages that are not locked, and reproducible."""

import hashlib
import json

import pytest
from support.repository import program


@pytest.fixture
def sbom():
    """The program that the build of an image runs."""
    return program("sbom")


@pytest.fixture
def image(tmp_path):
    """Files as in an image, and the program's arguments for them."""
    for name, version in (("backfill_operator", "0.1.0"), ("py4j", "0.10.9.9"), ("Some.Thing", "2.0")):
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: not this\n")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "io.delta_delta-storage-4.4.0.jar").write_bytes(b"jar")
    (tmp_path / "lock").write_text("py4j==0.10.9.9 \\\n    --hash=sha256:00\nsome-thing==2.0 ; python_version < '4'\n")
    arguments = ["--name", "backfill-spark", "--lock", tmp_path / "lock", "--site-packages", tmp_path / "site"]
    return tmp_path, [*map(str, arguments), "--jars", str(tmp_path / "jars")]


class TestTheBill:
    """The bill lists exactly the locked packages and jars of an image."""

    def test_the_bill_lists_packages_and_jars_and_has_the_version_of_the_product(self, sbom, image, capsys):
        """A scanner finds a package by its purl, and a jar by its checksum."""
        sbom.main(image[1])
        document = json.loads(capsys.readouterr().out)
        components = {component["name"]: component for component in document["components"]}

        assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", "0.1.0")
        assert components["some-thing"]["purl"] == "pkg:pypi/some-thing@2.0"
        [digest] = components["io.delta_delta-storage"]["hashes"]
        assert digest == {"alg": "SHA-256", "content": hashlib.sha256(b"jar").hexdigest()}

    def test_the_bill_is_reproducible(self, sbom, image, capsys):
        """Two builds of one source are compared by it."""
        bills = []
        for _ in range(2):
            sbom.main(image[1])
            bills.append(capsys.readouterr().out)

        assert bills[0] == bills[1]

    @pytest.mark.parametrize("lock", ["py4j==0.10.9.9\n", "py4j==0.10.9.9\nsome-thing==2.1\n"])
    def test_no_bill_is_written_for_a_package_that_is_not_locked(self, sbom, image, lock):
        """The build fails with the name of the package."""
        folder, arguments = image
        (folder / "lock").write_text(lock)

        with pytest.raises(SystemExit, match=r"some-thing 2\.0 is installed and not locked"):
            sbom.main(arguments)

    def test_the_bill_lists_debian_packages(self, sbom):
        """The input is the list of dpkg."""
        [component] = sbom.debian_packages("tini 0.19.0-1+b3 amd64\n")

        assert component["purl"] == "pkg:deb/debian/tini@0.19.0-1+b3?arch=amd64"
