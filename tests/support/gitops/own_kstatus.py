"""The library kstatus itself, which kubectl, Helm 4 and Flux use to wait: compiled from its Go module once, and kept in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODULE, VERSION = "sigs.k8s.io/cli-utils", "v0.37.2"
BUILD_S = 1500
LINES_TOLD = 10
PROGRAM = """package main

import (
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var objects []any
	if err := json.Unmarshal(text, &objects); err != nil {
		panic(err)
	}
	for _, object := range objects {
		result, err := status.Compute(&unstructured.Unstructured{Object: object.(map[string]any)})
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Status)
	}
}
"""


class NoKstatusError(Exception):
    """The program does not exist; the message has the reason and the remedy."""


def statuses(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the status of each object.

    Raises:
        NoKstatusError: the program was not compiled yet.
    """
    program = _cache() / "kstatus"
    if not program.is_file():
        raise NoKstatusError(f"kstatus {VERSION} is not compiled: run make test-kueue once, which needs go")
    done = subprocess.run([program], input=json.dumps(objects), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def compile_kstatus() -> Path:
    """Compile the program unless that was done before; return its path.

    Raises:
        NoKstatusError: there is no go, or the compilation fails.
    """
    cache = _cache()
    program = cache / "kstatus"
    if program.is_file():
        return program
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoKstatusError("there is no go to compile kstatus")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "main.go").write_text(PROGRAM)
    (cache / "go.mod").write_text(f"module build\n\ngo 1.21\n\nrequire {MODULE} {VERSION}\n")
    environ = {**os.environ, "GOFLAGS": "", "CGO_ENABLED": "0"}
    command = [go, "build", "-mod=mod", "-trimpath", "-o", program, "."]
    done = subprocess.run(command, cwd=cache, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S)
    if done.returncode:
        raise NoKstatusError("kstatus could not be compiled:\n" + "\n".join(done.stderr.splitlines()[-LINES_TOLD:]))
    return program


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill-kstatus" / VERSION


if __name__ == "__main__":
    try:
        print(compile_kstatus())
    except NoKstatusError as none:
        sys.exit(str(none))
