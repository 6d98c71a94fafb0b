"""A release has packages, images, a chart that names them by digest, and checksums of all; or there is none, with the reason."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml
from support.repository import ROOT

sys.path.insert(0, str(ROOT / "build-tools" / "release"))

from make import BILL, ImageCommands, ReleaseError, changes, obstacles, release
from oci_archive import MANIFEST, ArchiveError, OciArchive

VERSION, REGISTRY = "0.1.0", "registry.example:5000/team"
PARTS = (
    "build-tools",
    "charts",
    "crds",
    "operator",
    "requirements",
    "spark_app",
    "pyproject.toml",
    "LICENSE",
    "CHANGELOG.md",
)
SECTION = f"""## [{VERSION}] - 2026-11-27

### Jobs

- A job resumes
  after a kill.
- A receipt proves equality.

## [0.0.9] - 2026-01-01

- An older change.
"""
HELM = shutil.which("helm") or next(
    (str(path) for path in [ROOT.home() / ".cache" / "backfill-cluster" / "bin" / "helm"] if path.exists()), None
)
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")

EXPORT = """import sys
sys.path[:0] = [{here!r}]
from test_release import write_archive
write_archive(sys.argv[2], {{{bill!r}: b'{{"bomFormat": "CycloneDX"}}'}})
"""


def write_archive(path, files, *, damage=b""):
    """Write an OCI archive with an image of one layer."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as members:
        for name, content in files.items():
            member = tarfile.TarInfo(name.lstrip("/"))
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))
    blobs = {}

    def added(content):
        blobs[hashlib.sha256(content).hexdigest()] = content
        return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}

    config = added(json.dumps({"config": {"Labels": {"name": "backfill"}}}).encode())
    packed = added(gzip.compress(layer.getvalue(), mtime=0))
    described = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [packed]}
    manifest = added(json.dumps(described).encode())
    index = json.dumps({"manifests": [{"mediaType": MANIFEST, **manifest}]}).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in {
            "index.json": index,
            **{f"blobs/sha256/{name}": blob for name, blob in blobs.items()},
        }.items():
            member = tarfile.TarInfo(name)
            content += damage if damage and name.endswith(packed["digest"].partition(":")[2]) else b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return manifest["digest"]


def git(root, *arguments):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t.example", *arguments], cwd=root, check=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The sources of this project, committed, with a section of the changelog for the version."""
    root = tmp_path_factory.mktemp("project")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, root / name)
    (root / "docs").mkdir()
    shutil.copyfile(ROOT / "docs" / "package.md", root / "docs" / "package.md")
    (root / ".gitignore").write_text("__pycache__/\n")
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n{SECTION}")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "docs: release")
    return root


@pytest.fixture(scope="module")
def out(project, tmp_path_factory):
    """A release of the project, made once."""
    folder = tmp_path_factory.mktemp("release")
    export = folder / "export.py"
    export.write_text(EXPORT.format(here=os.path.dirname(__file__), bill=BILL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.path.dirname(HELM)}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
        commands = ImageCommands(parts="true", build="true", export=f"{sys.executable} {export}")
        release(project, folder / "out", version=VERSION, registry=REGISTRY, commands=commands)
    return folder / "out"


@needs_helm
class TestARelease:
    """The images are built by other programs; here an archive of one file stands for each."""

    def test_the_packages_have_every_package_and_the_wheel_no_tests(self, out):
        """`pip install` of a release needs no clone."""
        [wheel] = out.glob("*.whl")
        [source] = out.glob("*.tar.gz")

        names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
        assert {
            "backfill",
            "backfill_cli",
            "backfill_core",
            "backfill_kubectl",
            "backfill_operator",
            "backfill_page",
        } <= names
        assert "tests" not in names
        assert wheel.name == f"backfill_operator-{VERSION}-py3-none-any.whl"
        assert source.name == f"backfill_operator-{VERSION}.tar.gz"

    def test_the_chart_names_the_images_by_the_digests_of_the_archives(self, out):
        """A push to the registry then cannot change what a cluster runs."""
        [archive] = out.glob("backfill-operator-*.tgz")
        with tarfile.open(archive) as chart:
            values = yaml.safe_load(chart.extractfile("backfill-operator/values.yaml"))
            about = yaml.safe_load(chart.extractfile("backfill-operator/Chart.yaml"))

        for name in ("operator", "spark"):
            digest = OciArchive(out / f"backfill-{name}-{VERSION}.oci.tar").digest
            assert values["images"][name] == f"{REGISTRY}/backfill-{name}@{digest}"
            assert f"image: {REGISTRY}/backfill-{name}@{digest}" in about["annotations"]["artifacthub.io/images"]
        assert (about["version"], about["appVersion"]) == (VERSION, VERSION)
        assert yaml.safe_load(about["annotations"]["artifacthub.io/changes"]) == [
            "A job resumes after a kill.", "A receipt proves equality.",
        ]  # fmt: skip

    def test_checksums_and_provenance_cover_every_file(self, out, project):
        """`sha256sum --check` reads the list, and `cosign attest` the statement."""
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
        listed = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
        stated = json.loads((out / "provenance.intoto.json").read_text())
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=True)

        assert listed == {path.name for path in out.iterdir()} - {"SHA256SUMS"}
        subjects = {subject["name"] for subject in stated["subject"]}
        assert subjects - listed == {f"{REGISTRY}/backfill-operator", f"{REGISTRY}/backfill-spark"}
        assert listed - subjects == {"provenance.intoto.json"}
        [sources, *locks] = stated["predicate"]["buildDefinition"]["resolvedDependencies"]
        assert sources["digest"] == {"gitCommit": head.stdout.strip()}
        assert {lock["uri"] for lock in locks} == {"requirements/image.txt", "requirements/jars.sha256"}

    def test_the_bill_of_materials_of_each_image_lies_beside_it(self, out):
        """It is the file that the build of the image wrote."""
        for name in ("operator", "spark"):
            bill = json.loads((out / f"backfill-{name}-{VERSION}.cdx.json").read_text())
            assert bill["bomFormat"] == "CycloneDX"

    def test_a_second_build_of_a_version_changes_nothing(self, out, project):
        """A release that exists may be published already."""
        before = (out / "SHA256SUMS").read_text()

        with pytest.raises(ReleaseError, match="is not empty: remove it"):
            release(project, out, version=VERSION, registry=REGISTRY, commands=ImageCommands(parts="false"))
        assert (out / "SHA256SUMS").read_text() == before


class TestWhatStopsARelease:
    """The message names the file, its value and the expected one."""

    def test_the_version_must_be_that_of_package_chart_and_changelog(self, project):
        """One number is the version of all parts."""
        found = obstacles(project, "0.2.0", REGISTRY)

        assert found == [
            "pyproject.toml: project.version is 0.1.0, not 0.2.0",
            "charts/backfill-operator/Chart.yaml: version is 0.1.0, not 0.2.0",
            "charts/backfill-operator/Chart.yaml: appVersion is 0.1.0, not 0.2.0",
            "CHANGELOG.md has no changes below `## [0.2.0] - YYYY-MM-DD`",
        ]

    @pytest.mark.parametrize(
        ("version", "registry", "named"),
        [
            ("", REGISTRY, "VERSION ''"),
            ("1.0", REGISTRY, "VERSION '1.0'"),
            ("v0.1.0", REGISTRY, "VERSION 'v0.1.0'"),
            (VERSION, "", "REGISTRY ''"),
            (VERSION, "https://registry.example", "REGISTRY 'https://registry.example'"),
            (VERSION, "Registry.example/Team", "REGISTRY 'Registry.example/Team'"),
        ],
    )
    def test_a_version_or_registry_of_another_form_is_named(self, project, version, registry, named):
        """An image's name has no scheme and no capital letters."""
        assert any(obstacle.startswith(named) for obstacle in obstacles(project, version, registry))

    def test_uncommitted_changes_are_named(self, project):
        """The provenance states a commit, so the sources must be that commit."""
        (project / "extra.txt").write_text("x")
        try:
            assert obstacles(project, VERSION, REGISTRY) == ["uncommitted changes: extra.txt"]
        finally:
            (project / "extra.txt").unlink()

    def test_only_the_changes_of_the_version_are_listed(self):
        """A point may have several lines."""
        assert changes(SECTION, VERSION) == ["A job resumes after a kill.", "A receipt proves equality."]
        assert changes(SECTION, "0.0.9") == ["An older change."]
        assert changes(SECTION, "0.0.8") is None

    def test_a_damaged_or_foreign_archive_is_refused(self, tmp_path):
        """A registry would refuse it only after the release."""
        write_archive(tmp_path / "damaged.tar", {BILL: b"{}"}, damage=b"x")
        (tmp_path / "text.tar").write_text("no archive")

        with pytest.raises(ArchiveError, match="is damaged"):
            OciArchive(tmp_path / "damaged.tar").file(BILL)
        with pytest.raises(ArchiveError, match="is not an OCI archive"):
            OciArchive(tmp_path / "text.tar")

    def test_an_image_without_a_bill_of_materials_is_refused(self, tmp_path):
        """Each image must list what it contains."""
        write_archive(tmp_path / "image.tar", {"/etc/os-release": b"x"})

        with pytest.raises(ArchiveError, match=f"no layer has {BILL}"):
            OciArchive(tmp_path / "image.tar").file(BILL)
