"""The driver of a refresh gets a mode, because an ordinary driver would find its job complete."""

import pytest
from support.operators.observations import spec

from backfill_api.status.procedure import ProcedureKind
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_spark.settings import DriverSettings


def modes(*, refresh: bool = False, procedure: ProcedureKind | None = None) -> list[str]:
    """Return the values of the variable for the mode in a driver's container."""
    installation = Installation("backfill:1")
    launch = Launch("shop", "orders", "0b5a-uid", 2, "Run", spec(), installation, refresh=refresh, procedure=procedure)
    (container,) = driver_pod(launch)["spec"]["containers"]
    return [variable["value"] for variable in container["env"] if variable["name"] == "BACKFILL_MODE"]


class TestTheModeOfARefresh:
    """Only a driver that continues an ended job is told so."""

    def test_refresh_has_its_mode(self) -> None:
        """A refresh is an attempt like any other for the operator."""
        assert modes(refresh=True) == ["refresh"]

    def test_ordinary_attempt_has_no_mode(self) -> None:
        """Drivers of earlier versions know no other mode than that of a plan."""
        assert modes(refresh=False) == []

    @pytest.mark.parametrize(
        ("procedure", "mode"),
        [
            ("Switch", "switch"),
            ("UndoSwitch", "undo-switch"),
            ("CompleteSwitch", "complete-switch"),
            ("Repair", "repair"),
            ("Close", "close"),
        ],
    )
    def test_procedure_has_its_mode(self, procedure: ProcedureKind, mode: str) -> None:
        """Also the procedure of a job that is refreshed."""
        assert modes(refresh=True, procedure=procedure) == [mode]
        assert DriverSettings.from_environ({"BACKFILL_MODE": mode}).mode == mode
