"""An image is built by the first tool that works: a client without its daemon is passed over."""

import subprocess

import pytest
from support.repository import ROOT

SCRIPT = ROOT / "build-tools" / "image_build.sh"
WORKS, FAILS = 'echo "$(basename "$0") $1"', '[ "$1" != info ] || exit 1'


def built(folder, **tools):
    """Build with only these tools on the path, each with its script; return the result."""
    for name, text in {"git": "exit 1", **tools}.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    for name in ("bash", "basename"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return subprocess.run(
        ["/bin/bash", SCRIPT, ROOT, "a:1"], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
    )


class TestTheTool:
    @pytest.mark.parametrize(
        ("tools", "used"),
        [
            ({"docker": WORKS, "buildah": WORKS}, "docker build"),
            ({"docker": FAILS, "buildah": WORKS}, "buildah bud"),
            ({"docker": FAILS, "podman": WORKS}, "podman build"),
        ],
        ids=["with a daemon", "without a daemon", "without a daemon beside podman"],
    )
    def test_a_client_without_its_daemon_is_passed_over(self, tmp_path, tools, used):
        """`make image` once failed where buildah was installed and docker's daemon did not run (fault K15)."""
        assert built(tmp_path, **tools).stdout.splitlines()[-1] == used

    def test_a_machine_without_a_tool_is_told_what_to_install(self, tmp_path):
        """The message names the tools and a package."""
        done = built(tmp_path, docker=FAILS)

        assert done.returncode == 1
        assert "apt-get install buildah" in done.stderr
