"""A job with the tests' plug-in distribution, in separate processes: a process discovers its plug-ins once."""

import json
import os
import subprocess
import sys

import yaml
from support.repository import ROOT, SOURCE_ROOTS

DISTRIBUTION = ROOT / "tests" / "support" / "plugin_counter"
WAITS_S = 240


class Place:
    """A counter, a list, and a job from one to the other."""

    def __init__(self, folder, distribution=DISTRIBUTION, jars=None, **changed):
        self.folder, self.list = folder, folder / "list"
        path = os.pathsep.join([*(str(ROOT / root) for root in SOURCE_ROOTS), str(distribution)])
        self.environment = os.environ | {"PYTHONPATH": path, "BACKFILL_JARS_DIR": str(jars)}
        (folder / "counter").write_text(json.dumps({"0": 10, "1": 10}))
        spec = {
            "source": {"type": "Counter", "counter": {"partitions": 2, "path": str(folder / "counter")}},
            "target": {"type": "List", "list": {"path": str(self.list)}},
            "strategy": {"type": "Counter", "counter": {"rangeMax": 3, "vnodes": 4}},
            "transform": {"select": ["`partition`", "number"]},
            "barrier": {"intervalMs": 200},
            "throttle": {"rowsPerSecond": 5},
            "verify": "Final",
        } | changed
        document = {
            "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "numbers"}, "spec": spec,
        }  # fmt: skip
        (folder / "job.yaml").write_text(yaml.safe_dump(document))

    def command(self, **environment):
        """Run `backfill run` in a separate process group, as a user's shell does."""
        return self.process("-m", "backfill_cli", "run", "-f", str(self.folder / "job.yaml"), **environment)

    def process(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment | environment, capture_output=True, text=True, cwd=self.folder,
            timeout=WAITS_S, process_group=0, check=False,
        )  # fmt: skip
