"""Kueue for tests: its program and its manifests, compiled from the Go module proxy once and kept in the user's cache."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODULE, VERSION = "sigs.k8s.io/kueue", "v0.17.0"
BUILD_S = 3000
LINES_TOLD = 10


class NoKueueError(Exception):
    """Kueue is not available; the message has the reason and the remedy."""


@dataclass(frozen=True)
class KueueBuild:
    """The program, and Kueue's own manifests."""

    program: Path
    crds: Path
    """Folder of its CRDs."""

    webhooks: Path
    """File with its webhook configurations."""


def kueue_build():
    """Return the compiled Kueue.

    Raises:
        NoKueueError: it was not compiled yet.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill-kueue" / VERSION
    build = KueueBuild(cache / "kueue", cache / "crds", cache / "webhooks.yaml")
    if not build.program.is_file():
        raise NoKueueError(f"Kueue {VERSION} is not compiled: run make test-kueue once, which needs go")
    return build


def compile_kueue():
    """Compile Kueue unless that was done before; return the build.

    Raises:
        NoKueueError: there is no go, or the compilation fails.
    """
    try:
        return kueue_build()
    except NoKueueError:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill-kueue" / VERSION
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoKueueError("there is no go to compile Kueue")
    source = Path(json.loads(_run(go, "mod", "download", "-json", f"{MODULE}@{VERSION}"))["Dir"])
    shutil.copytree(source / "config/components/crd/bases", cache / "crds", dirs_exist_ok=True)
    shutil.copyfile(source / "config/components/webhook/manifests.yaml", cache / "webhooks.yaml")
    _run(
        go, "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}/cmd/kueue@{VERSION}", GOBIN=str(cache), CGO_ENABLED="0"
    )
    return kueue_build()


def _run(*command, **variables):
    environ = {**os.environ, "GOFLAGS": "", **variables}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise NoKueueError("Kueue could not be compiled:\n" + "\n".join(done.stderr.splitlines()[-LINES_TOLD:]))
    return done.stdout


if __name__ == "__main__":
    try:
        print(compile_kueue().program)
    except NoKueueError as none:
        sys.exit(str(none))
