"""The termination message of a driver's pod, which outlives the driver and the operator."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field
from pydantic_core import from_json

from backfill_api.model import Model, known
from backfill_api.status.plan import Plan
from backfill_api.status.procedure import ProcedureEnd
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.receipt import ReceiptSummary

ENDING_BYTES_MAX: Final = 4096
"""A kubelet keeps this much of a termination message."""

SHORT_CHARACTERS: Final = 600


class Ending(Model):
    """End of an attempt, as its driver reports it."""

    outcome: Literal["Complete", "Stopped", "Failed", "Planned"]
    """`Planned`: it only made a plan."""

    reason: Annotated[str, Field(max_length=64)] = ""
    """Reason in one CamelCase word."""

    message: Annotated[str, Field(max_length=4096)] = ""
    """Message for users."""

    hint: Annotated[str, Field(max_length=4096)] = ""
    """Remedy for the user."""

    outside: bool = False
    """Is the cause of a failure outside the job, such as a store that does not answer? Such an end uses up no attempt."""

    progress: ProgressSummary | None = None
    """Progress at the end."""

    receipt: ReceiptSummary | None = None
    """The newest proof."""

    plan: Plan | None = None
    """The plan, of an attempt that only made one."""

    procedure: ProcedureEnd | None = None
    """The end of a procedure, of an attempt that performed one."""

    token: Annotated[str, Field(max_length=128)] = ""
    """The attempt's token, which is of no use any more: only its driver knew it. Empty: an earlier driver, or none of an operator."""

    def text(self) -> str:
        """Return JSON of at most 4,096 bytes: long strings are cut, then details of progress and plan are omitted."""
        ending = self
        while len(text := ending.model_dump_json(by_alias=True, exclude_defaults=True).encode()) > ENDING_BYTES_MAX:
            ending = ending._shorter()
        return text.decode()

    def _shorter(self) -> Self:
        if max(len(self.message), len(self.hint)) > SHORT_CHARACTERS:
            return self.model_copy(
                update={"message": self.message[:SHORT_CHARACTERS], "hint": self.hint[:SHORT_CHARACTERS]}
            )
        if self.progress is not None and (self.progress.partitions or self.progress.warnings):
            fewer = {"partitions": (), "warnings": (), "warning_codes": ()}
            return self.model_copy(update={"progress": self.progress.model_copy(update=fewer)})
        if self.plan is not None and self.plan.warnings:
            plan = self.plan.model_copy(update={"warnings": self.plan.warnings[:-1]})
            return self.model_copy(update={"plan": plan})
        if self.plan is not None and self.plan.target is not None:
            return self.model_copy(update={"plan": self.plan.model_copy(update={"target": None})})
        if self.plan is not None and any(files.reason for files in self.plan.ways):
            ways = tuple(files.model_copy(update={"reason": ""}) for files in self.plan.ways)
            return self.model_copy(update={"plan": self.plan.model_copy(update={"ways": ways})})
        if self.plan is not None and self.plan.key_columns:
            return self.model_copy(update={"plan": self.plan.model_copy(update={"key_columns": ()})})
        return self.model_copy(update={"message": "", "hint": "", "progress": None, "receipt": None})

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the ending in a termination message, or None when no driver of ours wrote it.

        Fields that a later version of the driver wrote are left out.
        """
        try:
            return cls.model_validate(known(cls, from_json(text, allow_inf_nan=False)))
        except ValueError:
            return None
