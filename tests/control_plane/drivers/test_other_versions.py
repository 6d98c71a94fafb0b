"""Operator and driver of two versions: each ignores unknown fields of the other, and refuses unsupported ones by name."""

import asyncio
import contextlib
import json

import pytest
from support.drivers.driver_double import RECEIPT, DriverDouble, server_context
from support.operators.rig import Rig

from backfill_api.model import known
from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress
from backfill_api.status.receipt import Receipt
from backfill_api.wire import Command, CommandRequest, PauseCommand, StopCommand, ThrottleCommand
from backfill_operator.drivers.certificates import fingerprint, mint
from backfill_operator.drivers.control_client import ControlClient, DriverAddress

PROGRESS = {
    "phase": "Snapshot", "percent": 40, "rowsTotal": 10, "rowsDone": 4, "tableVersion": 3,
    "steps": [{"name": "Copy", "state": "Running", "seconds": 5}, {"name": "Receipt", "state": "Pending"}],
    "watermark": {"column": "at", "value": "2026-01-01"}, "lagByPartition": [{"partition": "0", "records": 7}],
    "warnings": ["slow"], "warningCodes": ["NonConvergent"],
}  # fmt: skip
PLAN = {
    "rows": 10, "bytes": 20, "files": 2, "splits": 1, "estimatedSeconds": 9, "estimatedSecondsLow": 5, "estimatedSecondsHigh": 20,
    "ways": [{"way": "Whole", "files": 2}], "steps": [{"name": "Copy", "seconds": 4}], "warnings": [{"reason": "KeyUnproven", "message": "a"}],
    "partitions": {"largest": [{"partition": "0", "rows": 4}], "others": 0, "otherRows": 0},
}  # fmt: skip
ENDING = {"outcome": "Planned", "plan": PLAN, "progress": {"phase": "Snapshot", "steps": PROGRESS["steps"]}}
TAKEN = RECEIPT | {
    "mismatches": [{"vnode": 1, "sourceRows": 2, "targetRows": 3}],
    "files": [{"path": "a", "what": "b"}],
}
SAID = {Progress: PROGRESS, Receipt: TAKEN, Plan: PLAN, Ending: ENDING}


def later(value):
    """Return a document with an additional field in each of its mappings."""
    match value:
        case dict():
            return {name: later(item) for name, item in value.items()} | {"laterField": {"colour": ["red"]}}
        case list():
            return [later(item) for item in value]
        case _:
            return value


class Later(DriverDouble):
    """A driver of a later version, which sends an additional field in each document."""

    async def _route(self, *request):
        status, kind, body, keep = await super()._route(*request)
        return status, kind, json.dumps(later(json.loads(body))).encode() if kind == "application/json" else body, keep


class Earlier(DriverDouble):
    """A driver from before the limits of bytes, with a closed contract."""

    async def _post(self, parts, headers, reader):
        body = await reader.readexactly(int(headers["content-length"]))
        if b"bytesPerSecond" in body:
            error = {"field": "command.throttle.bytesPerSecond", "message": "Extra inputs are not permitted"}
            return 400, "application/json", json.dumps({"error": error}).encode(), True
        again = asyncio.StreamReader()
        again.feed_data(body)
        again.feed_eof()
        return await super()._post(parts, headers, again)


@contextlib.asynccontextmanager
async def driver(kind, **options):
    """Yield a driver, a client and the address of the driver."""
    [credentials] = await mint(1)
    double = kind(token=credentials.token, **options)
    await double.start(ssl_context=server_context(credentials.certificate, credentials.key))
    address = DriverAddress(double.attempt, double.url, credentials.token, fingerprint(credentials.certificate))
    try:
        async with ControlClient(2.0) as client:
            yield double, client, address
    finally:
        await double.stop()


class TestADriverOfALaterVersion:
    """It occurs after a rollback of the operator, or with the image of a spec."""

    @pytest.mark.parametrize("model", SAID, ids=lambda item: item.__name__)
    def test_additional_fields_at_every_depth_are_ignored(self, model):
        """All common fields are read."""
        document = SAID[model]

        assert known(model, later(document)) == document
        assert model.model_validate(known(model, later(document))) == model.model_validate(document)

    async def test_driver_with_additional_fields_is_reachable(self):
        """A new field in one step would have made it unreachable while its job was running."""
        async with driver(Later) as (double, client, address):
            double.progress = double.progress.model_copy(update=dict(Progress.model_validate(PROGRESS)))
            double.receipt = TAKEN

            assert (await client.progress(address)).steps == Progress.model_validate(PROGRESS).steps
            assert await client.receipt(address) == Receipt.model_validate(TAKEN)
            pause = CommandRequest(attempt=1, revision=1, command=Command(type="Pause"))
            assert (await client.command(address, pause, 5)).outcome == "Applied"

    def test_plan_with_additional_fields_is_read(self):
        """Otherwise the planning would count as failed repeatedly, until the job is given up."""
        ending = Ending.read(json.dumps(later(ENDING)))

        assert ending == Ending.model_validate(ENDING)
        assert ending.plan == Plan.model_validate(PLAN)

    @pytest.mark.parametrize(
        "text", ["", "null", "[]", "Killed", '{"outcome": "Danced"}', '{"outcome": 1}', "[" * 4000]
    )
    def test_plan_is_not_read_from_arbitrary_messages(self, text):
        """A message may be the end of a log."""
        assert Ending.read(text) is None


class TestADriverOfAnEarlierVersion:
    """During an upgrade of the operator, an attempt keeps the image that it was started with."""

    async def test_default_values_are_not_sent(self):
        """A new field has a default, which is omitted."""
        seen = []

        class Listener(DriverDouble):
            async def _post(self, parts, headers, reader):
                body = await reader.readexactly(int(headers["content-length"]))
                seen.append(json.loads(body)["command"])
                return 400, "application/json", b'{"error": {}}', True

        commands = [
            Command(type="Pause", pause=PauseCommand()), Command(type="Resume"), Command(type="Stop", stop=StopCommand()),
            Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=5)), Command(type="Throttle", throttle=ThrottleCommand()),
        ]  # fmt: skip
        async with driver(Listener) as (_, client, address):
            for number, command in enumerate(commands, start=1):
                await client.command(address, CommandRequest(attempt=1, revision=number, command=command), 0)

        assert seen == [
            {"type": "Pause", "pause": {}}, {"type": "Resume"}, {"type": "Stop", "stop": {}},
            {"type": "Throttle", "throttle": {"rowsPerSecond": 5}}, {"type": "Throttle", "throttle": {}},
        ]  # fmt: skip

    async def test_driver_refuses_an_unknown_field_by_name(self):
        """The refusal is an answer, so the driver is reachable."""
        limit = Command(type="Throttle", throttle=ThrottleCommand(bytes_per_second=5))
        async with driver(Earlier) as (double, client, address):
            ack = await client.command(address, CommandRequest(attempt=1, revision=3, command=limit), 0)

        assert (ack.outcome, ack.revision, double.seen) == ("Refused", 3, [])
        assert "bytesPerSecond" in ack.message

    async def test_driver_continues_and_accepts_other_commands(self):
        """The status names the field; a pause and a suspension still work."""
        async with Rig(double={"kind": Earlier}) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(throttle={"bytesPerSecond": 1000})
            await rig.until(lambda: rig.condition("ControlSynced") == ("False", "CommandRefused"))
            assert rig.condition("Ready") == ("False", "CommandRefused")
            assert "bytesPerSecond" in rig.message("Ready")
            assert rig.condition("DriverReady") == ("True", "Running")

            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.condition("Paused") == ("True", "AsRequested"))
            rig.edit(throttle=None)
            await rig.until_holds("Paused")
            assert rig.condition("ControlSynced") == ("True", "Acknowledged")
            rig.edit(suspend=True)
            await rig.until_holds("Suspended")
