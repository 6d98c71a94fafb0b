"""kstatus, Flux's expressions and Argo CD's script say of each status what the one table of docs/gitops.md says."""

import pytest
import yaml
from support.cluster.kstatus import kstatus
from support.gitops.argo_cd import ArgoCd
from support.gitops.flux import FluxHealth
from support.repository import ROOT

from backfill_api.names import API_VERSION, KIND

TABLE = yaml.safe_load((ROOT / "docs" / "statuses.yaml").read_text())
ROWS = pytest.mark.parametrize("row", TABLE, ids=[f"{number}-{row['phase']}" for number, row in enumerate(TABLE)])


class TestTheTable:
    def test_has_every_phase_and_every_word(self):
        """A tool that is never asked about a failure would be believed."""
        phases = {row["phase"].strip("()").split(",")[0] for row in TABLE}
        assert phases >= {"new", "Pending", "AwaitingApproval", "Launching", "Running", "Pausing", "Paused", "Suspending",
                          "Suspended", "Retrying", "Succeeded", "Failed", "Terminating"}  # fmt: skip
        assert {row["kstatus"] for row in TABLE} == {"InProgress", "Failed", "Current", "Terminating"}
        assert {row["argoCd"] for row in TABLE} == {"Progressing", "Degraded", "Healthy", "Suspended"}
        assert {row["copied"] for row in TABLE} == {"InProgress", "Failed", "Current"}


class TestHealth:
    @ROWS
    def test_of_kstatus(self, row):
        """`kubectl wait`, Helm and Flux without expressions."""
        assert kstatus(row["backfill"]) == row["kstatus"]

    @ROWS
    def test_of_flux_when_rows_must_be_there(self, row):
        """A job that runs well is not done."""
        assert FluxHealth().health(row["backfill"]) == row["copied"]

    @ROWS
    def test_of_argo_cd(self, row):
        """With a message for people once there is something to say."""
        status, message = ArgoCd().health(row["backfill"])

        assert status == row["argoCd"]
        assert message

    def test_is_of_the_kind_that_there_is(self):
        """A tool ignores what is said of another version, in silence."""
        assert FluxHealth().kind == (API_VERSION, KIND)
