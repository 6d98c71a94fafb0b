"""The workflows of GitHub call the project's own commands, with few rights; `make workflows` checks their syntax."""

import re

import pytest
import yaml
from support.repository import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow):
    """Return all steps of a workflow."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.fixture(params=FILES, ids=[path.stem for path in FILES])
def workflow(request):
    """One workflow, parsed."""
    return yaml.safe_load(request.param.read_text())


class TestAWorkflow:
    """A workflow that nothing runs here would break at the first release."""

    def test_each_command_of_the_project_exists(self, workflow):
        """A renamed target is found before the merge."""
        commands = [
            line.split() for step in steps(workflow) for line in step.get("run", "").splitlines() if line.strip()
        ]

        for command in commands:
            if command[0] == "make":
                assert command[1] in TARGETS
            if command[0].startswith((".", "build-tools/")):
                assert (ROOT / command[0]).exists()
        assert any(command[0] in {"make", ".ci/run"} for command in commands)

    def test_rights_are_granted_job_by_job(self, workflow):
        """A build of foreign code can read the sources, and nothing else."""
        assert workflow["permissions"] == {"contents": "read"}
        assert [name for name, job in workflow["jobs"].items() if job.get("permissions")] in ([], ["publish"])

    def test_no_secret_or_name_of_a_branch_is_pasted_into_a_command(self, workflow):
        """A shell would run it; variables of the environment are quoted."""
        assert [step["run"] for step in steps(workflow) if "${{" in step.get("run", "")] == []

    def test_each_job_has_a_time_limit(self, workflow):
        """A hanging job would hold a machine for six hours."""
        assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())
