"""kstatus, Flux's expressions and Argo CD's script return the results in the table of docs/gitops.md for each status."""

import pytest
import yaml
from support.cluster.kstatus import kstatus
from support.gitops.argo_cd import ArgoCd
from support.gitops.flux import FluxHealth
from support.gitops.own_kstatus import NoKstatusError, statuses
from support.repository import ROOT

from backfill_api.names import API_VERSION, KIND

TABLE = yaml.safe_load((ROOT / "docs" / "statuses.yaml").read_text())
ROWS = pytest.mark.parametrize("row", TABLE, ids=[f"{number}-{row['phase']}" for number, row in enumerate(TABLE)])


class TestTheTable:
    def test_table_has_every_phase_and_every_result(self):
        """A tool could report success for a failure that no row contains."""
        phases = {row["phase"].strip("()").split(",")[0] for row in TABLE}
        assert phases >= {"new", "Pending", "AwaitingApproval", "Launching", "Running", "Pausing", "Paused", "Suspending",
                          "Suspended", "Retrying", "Succeeded", "Failed", "Terminating"}  # fmt: skip
        assert {row["kstatus"] for row in TABLE} == {"InProgress", "Failed", "Current", "Terminating"}
        assert {row["argoCd"] for row in TABLE} == {"Progressing", "Degraded", "Healthy", "Suspended"}
        assert {row["copied"] for row in TABLE} == {"InProgress", "Failed", "Current"}


class TestHealth:
    @ROWS
    def test_kstatus_returns_the_result_of_the_table(self, row):
        """It is used by `kubectl wait`, by Helm, and by Flux without expressions."""
        assert kstatus(row["backfill"]) == row["kstatus"]

    def test_own_code_of_kstatus_returns_the_results_of_the_table(self):
        """The rules in this suite are a copy; Helm's and Flux' waits use the library itself."""
        objects = [row["backfill"] for row in TABLE]
        try:
            computed = statuses(objects)
        except NoKstatusError as none:
            pytest.skip(str(none))

        assert computed == [row["kstatus"] for row in TABLE]
        assert computed == [kstatus(object_) for object_ in objects]

    @ROWS
    def test_flux_expressions_return_the_result_of_the_table(self, row):
        """A job that runs well is not finished."""
        assert FluxHealth().health(row["backfill"]) == row["copied"]

    @ROWS
    def test_argo_cd_script_returns_the_result_of_the_table(self, row):
        """The result has a message as soon as the status has one."""
        status, message = ArgoCd().health(row["backfill"])

        assert status == row["argoCd"]
        assert message

    def test_scripts_name_the_current_kind_and_version(self):
        """A tool silently ignores scripts for another version."""
        assert FluxHealth().kind == (API_VERSION, KIND)
