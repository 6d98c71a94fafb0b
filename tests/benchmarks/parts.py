"""Run the parts of a benchmark in separate processes with separate files, so that any of them run in any order."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("run.py")
WITHOUT_SOURCE = {"growth", "kafka"}
"""Parts that do not read the common source."""


def part(name, args, folder):
    """Run a part in a separate process that keeps its files in `folder`; return its figures, or `None` if it failed."""
    out = folder / "part.json"
    command = [sys.executable, str(PROGRAM), "--part", name, "--rows", str(args.rows), "--runs", str(args.runs)]
    done = subprocess.run([*command, "--scratch", str(folder), "--out", str(out)], check=False)
    return json.loads(out.read_text()) if done.returncode == 0 else None


def run(names, args, scratch):
    """Run the parts one after the other; return their figures by name, in this order."""
    source_part, figures = Path(scratch, "source_part"), {}
    source_part.mkdir()
    if not WITHOUT_SOURCE.issuperset(names) and part("make", args, source_part) is None:
        return dict.fromkeys(names)
    for name in names:
        print(name, flush=True)
        folder = Path(scratch, name)
        folder.mkdir()
        if name not in WITHOUT_SOURCE:
            # Hard links suffice: no writer changes a file in place.
            shutil.copytree(source_part / "source", folder / "source", copy_function=os.link)
        figures[name] = part(name, args, folder)
        shutil.rmtree(folder, ignore_errors=True)
    return figures
