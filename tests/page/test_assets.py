"""Scripts and styles of other projects are the files that npm publishes, and pages load nothing from elsewhere."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
from support.repository import ROOT

PAGE = ROOT / "spark_app" / "backfill_page"
FOLDERS = (PAGE / "static" / "vendor", Path(__file__).parent / "vendor")
RECORDED = [
    (folder / name, entry)
    for folder in FOLDERS
    for name, entry in tomllib.loads((folder / "vendored.toml").read_text()).items()
]
TEXTS = [
    path for path in PAGE.rglob("*") if path.suffix in {".html", ".css", ".js", ".svg"} and "vendor" not in path.parts
]


class TestVendoredFiles:
    """An edited file, or one that a download changed, is not the reviewed file."""

    @pytest.mark.parametrize(("path", "entry"), RECORDED, ids=lambda value: getattr(value, "name", ""))
    def test_each_file_has_its_recorded_checksum(self, path, entry):
        """Its record names the package and the version from which `npm pack` takes it."""
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
        assert re.fullmatch(r"[a-z.-]+@\d+\.\d+\.\d+", entry["package"])

    @pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
    def test_each_file_is_recorded_with_a_license(self, folder):
        """A file without a record would have no checksum."""
        recorded = {path.name for path, _ in RECORDED if path.parent == folder}
        licenses = {path.name for path in folder.iterdir() if path.name.startswith("LICENSE-")}

        assert {path.name for path in folder.iterdir()} - licenses == recorded | {"vendored.toml"}
        assert len(licenses) == len({entry["package"] for path, entry in RECORDED if path.parent == folder})


class TestOurTemplates:
    """The policy of the page forbids inline scripts and styles, so a template with one would not work."""

    @pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
    def test_no_file_loads_from_another_host(self, path):
        """The page works without a network. A namespace of SVG is a name, not an address."""
        addresses = re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]+""", path.read_text())

        assert set(addresses) <= {"http://www.w3.org"}

    @pytest.mark.parametrize("path", [path for path in TEXTS if path.suffix == ".html"], ids=lambda path: path.name)
    def test_no_template_has_an_inline_script_or_style(self, path):
        """`on…` attributes are scripts, too."""
        text = path.read_text()

        assert re.findall(r"<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", text) == []
        assert all("src=" in script for script in re.findall(r"<script[^>]*>", text))

    @pytest.mark.parametrize("path", [path for path in TEXTS if path.suffix == ".html"], ids=lambda path: path.name)
    def test_only_rendered_regions_are_exempt_from_escaping(self, path):
        """All other values come from drivers, from objects, or from their names."""
        exempt = re.findall(r"\{\{ ([^}]*)\| *safe", path.read_text())

        assert [value for value in exempt if not re.fullmatch(r"regions\.[a-z]+ ", value)] == []
