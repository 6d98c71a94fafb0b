"""Scan the locked packages for known vulnerabilities with pip-audit.

    python build-tools/audit.py [arguments of pip-audit, such as --ignore-vuln ID]

Exit codes: 0 if no vulnerability is known; 1 if pip-audit lists vulnerabilities or cannot audit a package; 75 if it did
not run, because PyPI's JSON API with the advisories does not answer. A package mirror often lacks this API.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIP_AUDIT = str(Path(sys.executable).with_name("pip-audit"))
NOT_RUN = 75
PROBE_S = 30
"""Time limit of the probe. Without a network, it fails at once or never."""

OPTIONS = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--timeout", "10")


def first_package(lock: str) -> str:
    """Return the entry of the first package of a lock, with its hashes."""
    lines = [line for line in lock.splitlines(keepends=True) if not line.lstrip().startswith("#")]
    ends = (at for at, line in enumerate(lines) if not line.rstrip().endswith("\\"))
    return "".join(lines[: next(ends) + 1])


def missing_advisories(program: str, lock: str) -> str:
    """Return why one package cannot be audited; empty if the advisories are available."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as probe:
        probe.write(first_package(lock))
        probe.flush()
        command = [program, *OPTIONS, "--format", "json", "-r", probe.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_S)
        except subprocess.TimeoutExpired:
            return f"no answer within {PROBE_S} s"
    try:
        (package,) = json.loads(done.stdout)["dependencies"]
    except ValueError:
        return (done.stderr.strip().splitlines() or ["no answer"])[-1]
    return package.get("skip_reason", "")


def main(arguments: list[str], program: str = PIP_AUDIT, lock: Path = ROOT / "requirements" / "dev.txt") -> int:
    """Run the program as the module's docstring shows."""
    if reason := missing_advisories(program, lock.read_text()):
        print(f"audit: not run, because PyPI's JSON API does not answer here: {reason}", flush=True)
        return NOT_RUN
    done = subprocess.run([program, *OPTIONS, "--strict", "-r", str(lock), *arguments], check=False)
    return 0 if done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
