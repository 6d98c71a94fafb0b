"""Environment variables of a driver process; the operator sets them, and settings.py reads them."""

from typing import Final

CONTROL_BIND: Final = "BACKFILL_CONTROL_BIND"
"""Address to listen on, of IPv4 or IPv6; without it: loopback."""

CONTROL_PORT: Final = "BACKFILL_CONTROL_PORT"
"""Port to listen on; without it: a free one."""

CONTROL_TLS_DIR: Final = "BACKFILL_CONTROL_TLS_DIR"
"""Folder with `tls.crt` and `tls.key`; without it: plain HTTP, which only loopback may use."""

CONTROL_TOKEN_FILE: Final = "BACKFILL_CONTROL_TOKEN_FILE"  # noqa: S105 - the name of a variable
"""File with the token that a request must carry; without it: one is made."""

SOURCE_SECRET_DIR: Final = "BACKFILL_SOURCE_SECRET_DIR"  # noqa: S105 - the name of a variable
"""Folder with the keys of the Secret that a source names, one file each; without it: there is none."""

OPERATOR_ATTEMPT: Final = "BACKFILL_OPERATOR_ATTEMPT"
"""Number that commands are addressed to; without it: the number of the attempt in the target's state."""

CORES: Final = "BACKFILL_CORES"
"""Tasks that run at once: threads of a local Spark, or the cores of all executors."""

STATE_DIR: Final = "BACKFILL_STATE_DIR"
"""Folder in which a running driver leaves its address."""

MASTER: Final = "BACKFILL_MASTER"
"""`cluster`: master and the rest come from `spark-defaults.conf`; without it: an embedded local Spark."""

MODE: Final = "BACKFILL_MODE"
"""`plan`: make a plan and end; without it: run."""

TERMINATION_LOG: Final = "BACKFILL_TERMINATION_LOG"
"""File for the `Ending`, which the kubelet takes into the pod's status."""

PROCEDURE_MODES: Final = {
    "Switch": "switch", "UndoSwitch": "undo-switch", "CompleteSwitch": "complete-switch",
    "FollowBack": "follow-back", "Repair": "repair", "Close": "close",
}  # fmt: skip
"""`BACKFILL_MODE` of a driver that performs a procedure instead of running the job."""
