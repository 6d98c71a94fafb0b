"""The CronJob of the recipe: it is complete, its script sets a valid override, and its account may do what it does."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import yaml

from backfill_api.names import GROUP, OVERRIDE_ANNOTATION, PLURAL
from backfill_api.spec.override import Override

EXAMPLE = Path(__file__).parents[3] / "examples" / "times-of-day" / "cron-job.yaml"


def objects():
    """Return the objects of the example by their kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))}


def container():
    """Return the container of the CronJob."""
    (only,) = objects()["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return only


class TestTheRecipe:
    def test_the_script_sets_an_override_that_ends_today(self, tmp_path):
        """A kubectl that records its arguments stands for the cluster's."""
        recorder = tmp_path / "kubectl"
        recorder.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$RECORD"\n')
        recorder.chmod(0o755)
        record = tmp_path / "arguments"
        before = datetime.now(UTC)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(record)}

        subprocess.run([*container()["command"], *container()["args"]], env=environment, check=True, timeout=30)

        arguments = record.read_text().splitlines()
        assert arguments[:-1] == ["annotate", "--overwrite", f"{PLURAL}.{GROUP}", "orders"]
        name, _, value = arguments[-1].partition("=")
        assert name == OVERRIDE_ANNOTATION
        throttle = Override.model_validate_json(value, by_alias=True, by_name=False).throttle
        assert throttle.rows_per_second == 50_000
        assert throttle.until in (f"{day:%Y-%m-%d}T18:00:00Z" for day in (before, datetime.now(UTC)))

    def test_the_account_may_patch_only_this_backfill(self):
        """`kubectl annotate` reads the object and patches it."""
        kinds = objects()
        (rule,) = kinds["Role"]["rules"]
        pod = kinds["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]

        assert rule == {
            "apiGroups": [GROUP], "resources": [PLURAL], "resourceNames": ["orders"], "verbs": ["get", "patch"],
        }  # fmt: skip
        assert kinds["RoleBinding"]["roleRef"]["name"] == kinds["Role"]["metadata"]["name"]
        (subject,) = kinds["RoleBinding"]["subjects"]
        assert subject["name"] == kinds["ServiceAccount"]["metadata"]["name"] == pod["serviceAccountName"]

    def test_the_page_shows_the_script(self):
        """A reader copies it from there."""
        page = (EXAMPLE.parents[2] / "docs" / "how-do-i.md").read_text(encoding="utf-8")

        assert "examples/times-of-day/cron-job.yaml" in page
        for line in container()["args"][0].strip().splitlines():
            assert line.strip() in page
