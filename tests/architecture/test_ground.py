"""A clone works anywhere: no file contains the address of a registry or a path of one machine."""

import re

import pytest
from support.repository import ROOT, name, tracked

BINARY = {".png", ".jpg", ".gif", ".ico", ".parquet", ".jar", ".whl"}
# The names are split, or this file would contain what it forbids.
HOSTS = [
    "py" + "pi.org", "python" + "hosted.org", "repo1." + "maven", "repo." + "maven", "maven." + "org", "registry." + "npmjs",
    "proxy." + "golang", "sum." + "golang", "static." + "crates", "deb." + "debian", "archive." + "ubuntu", "index" + "-url",
]  # fmt: skip
ROOTS = ["wo" + "rk", "fa" + "rm", "ho" + "me", "Us" + "ers"]
PLACES = [rf"(?<![\w.-])/{root}/" + (r"\w+/" if root[0] in "hU" else "") for root in ROOTS]
FORBIDDEN = re.compile("|".join([*map(re.escape, HOSTS), *PLACES]))
SUSPECTS = [*HOSTS, *(f"/{root}/" for root in ROOTS)]
"""Each match contains one of these. To search for them takes a tenth of the time of the expression."""

FLAG_OF_THE_LOCK = "--no-emit-" + "index" + "-url"


class TestTheGround:
    """A clone works on every machine that has its own mirrors configured."""

    @pytest.mark.parametrize("path", [path for path in tracked() if path.suffix not in BINARY], ids=name)
    def test_a_file_names_no_registry_and_no_machine(self, path):
        """The flag that keeps addresses out of the lock may be named."""
        text = path.read_text(errors="replace").replace(FLAG_OF_THE_LOCK, "")

        found = FORBIDDEN.search(text) if any(suspect in text for suspect in SUSPECTS) else None
        assert found is None, text[text.rfind("\n", 0, found.start()) + 1 : found.end()]

    def test_every_locked_package_has_a_hash(self):
        """A lock without hashes locks names, not contents."""
        lock = (ROOT / "requirements" / "dev.txt").read_text()
        packages = re.findall(r"^[a-z0-9._-]+==.*?(?=^[a-z0-9]|\Z)", lock, flags=re.MULTILINE | re.DOTALL)

        assert len(packages) > 40
        assert [package.splitlines()[0] for package in packages if "--hash=sha256:" not in package] == []
