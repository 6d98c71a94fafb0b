"""A job with the tests' plug-in distribution, in separate processes: a process discovers its plug-ins once.

They share the Java of the tests, except for the command line.
"""

import json
import os
import subprocess
import sys

import yaml
from support.drivers.shared_java import address_of
from support.repository import ROOT, SOURCE_ROOTS

DISTRIBUTION = ROOT / "tests" / "support" / "plugin_counter"
WAITS_S = 240


class Place:
    """A counter, a list, and a job from one to the other."""

    def __init__(self, folder, distribution=DISTRIBUTION, jars=None, **changed):
        self.folder, self.list = folder, folder / "list"
        path = os.pathsep.join([*(str(ROOT / root) for root in (*SOURCE_ROOTS, "tests")), str(distribution)])
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

    def command(self):
        """Run `backfill run` with a Java of its own, in a separate process group, as a user's shell does."""
        return self.process("-m", "backfill_cli", "run", "-f", str(self.folder / "job.yaml"))

    def killed(self, spark, point):
        """Run a driver until it is killed at a point."""
        at = {"BACKFILL_CRASH_AT": point, "BACKFILL_STATE_DIR": str(self.folder / "state"), "BACKFILL_CORES": "2"}
        file = str(self.folder / "job.yaml")
        return self.process("-m", "support.drivers.shared_java", file, **address_of(spark), **at)

    def script(self, spark, code):
        """Run a program with a session in the Java of the tests; its argument is the folder."""
        return self.process("-c", code, str(self.folder), **address_of(spark))

    def process(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment | environment, capture_output=True, text=True, cwd=self.folder,
            timeout=WAITS_S, process_group=0, check=False,
        )  # fmt: skip
