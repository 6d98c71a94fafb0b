"""The entry point of the images, for users without an entry in the image."""

import os
import subprocess
from pathlib import Path

import pytest
from support.repository import ROOT

ENTRYPOINT = ROOT / "spark_app" / "entrypoint.sh"


@pytest.fixture
def environment_of(tmp_path):
    """Return the environment of an image's command for a user with or without a name."""

    def of(*, named):
        folder = tmp_path / "bin"
        folder.mkdir()
        known = "echo known" if named else 'echo "id: cannot find name for user ID 1000650000" >&2; exit 1'
        (folder / "id").write_text(f'#!/bin/sh\n[ "$1" = -g ] && echo 0 && exit\n{known}\n')
        (folder / "id").chmod(0o755)
        given = {"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "HOME": "/"}
        done = subprocess.run(["bash", ENTRYPOINT, "env"], env=given, capture_output=True, text=True, check=True)
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    return of


class TestAUserWithoutAName:
    """OpenShift runs pods as a user from the namespace's range, with group 0 (fault C2)."""

    def test_user_without_a_name_gets_one_without_a_write_to_the_root_file_system(self, environment_of):
        """Java ended with: invalid null input: name. HADOOP_USER_NAME does not help, because Hadoop asks the system first."""
        given = environment_of(named=False)

        users = Path(given["NSS_WRAPPER_PASSWD"]).read_text().splitlines()
        assert users[:-1] == Path("/etc/passwd").read_text().splitlines()
        assert users[-1] == f"backfill:x:{os.getuid()}:0:backfill:/tmp:/usr/sbin/nologin"
        assert (given["LD_PRELOAD"], given["NSS_WRAPPER_GROUP"], given["HOME"]) == (
            "libnss_wrapper.so",
            "/etc/group",
            "/tmp",
        )

    def test_named_user_keeps_its_name(self, environment_of):
        """The image's own user has a name."""
        assert {"LD_PRELOAD", "NSS_WRAPPER_PASSWD"}.isdisjoint(environment_of(named=True))
