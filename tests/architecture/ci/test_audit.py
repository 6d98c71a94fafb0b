"""The scan of the locked packages reports its findings, or that it did not run."""

import json

import pytest
from support.repository import program

LOCK = "# locked\nfirst==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n    # via second\nsecond==2.0 \\\n    --hash=sha256:02\n"
AUDITED = json.dumps({"dependencies": [{"name": "first", "version": "1.0", "vulns": []}], "fixes": []})
SKIPPED = json.dumps({"dependencies": [{"name": "first", "skip_reason": "Dependency not found"}], "fixes": []})
FAKE = """#!/bin/sh
echo "$@" >> calls
while [ $# -gt 1 ]; do [ "$1" = -r ] && cat "$2" > asked; shift; done
case "$(cat asked)" in
*second*) exit {code} ;;
*) echo '{answer}'; [ '{answer}' ] || echo 'ERROR: no route to host' >&2 ;;
esac
"""


@pytest.fixture
def scan(tmp_path, monkeypatch):
    """Run the program with a fake of pip-audit, which answers for one package and ends with this code for all packages."""
    module = program("audit")
    monkeypatch.chdir(tmp_path)

    def run(answer, code=0, arguments=()):
        (tmp_path / "lock.txt").write_text(LOCK)
        fake = tmp_path / "pip-audit"
        fake.write_text(FAKE.format(answer=answer, code=code))
        fake.chmod(0o755)
        return module.main(list(arguments), str(fake), tmp_path / "lock.txt")

    return run


class TestTheScan:
    """An advisory fails the run; a machine without advisories does not."""

    @pytest.mark.parametrize(("code", "ended"), [(0, 0), (1, 1)], ids=["sound", "vulnerable"])
    def test_the_scan_ends_like_pip_audit(self, scan, tmp_path, code, ended):
        """It covers the whole lock, and no package may be skipped."""
        assert scan(AUDITED, code, ["--ignore-vuln", "PYSEC-1"]) == ended

        last = (tmp_path / "calls").read_text().splitlines()[-1]
        assert "--strict" in last
        assert last.endswith("lock.txt --ignore-vuln PYSEC-1")

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [(SKIPPED, "Dependency not found"), ("", "ERROR: no route to host")],
        ids=["mirror", "offline"],
    )
    def test_a_scan_without_advisories_reports_that_it_did_not_run(self, scan, capsys, answer, reason):
        """pip-audit itself succeeds even if it could audit no package at all."""
        assert scan(answer) == 75
        assert capsys.readouterr().out == f"audit: not run, because PyPI's JSON API does not answer here: {reason}\n"
