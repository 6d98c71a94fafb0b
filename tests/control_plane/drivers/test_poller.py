"""The poller of drivers: the answers or silence of one driver do not affect the others. Real doubles, TLS."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from support.drivers.driver_double import RECEIPT, DriverDouble, server_context

from backfill_api.wire import Command, CommandRequest, PauseCommand
from backfill_operator.drivers.certificates import fingerprint, mint
from backfill_operator.drivers.control_client import ControlClient, DriverAddress
from backfill_operator.drivers.poller import UNRESPONSIVE_EVERY_S, DriverPoller, DriverRef
from backfill_operator.kube.server_clock import wall_ms
from backfill_operator.metrics import Metrics
from backfill_operator.settings import OperatorSettings

PAUSE = Command(type="Pause", pause=PauseCommand(scope="All"))


class ScriptedDriver(DriverDouble):
    """A driver that sends scripted responses on some paths."""

    def __init__(self, **options):
        super().__init__(**options)
        self.instead = {}
        self.asked = 0

    async def _route(self, method, path, headers, reader):
        self.asked += path == "/v1/progress"
        if path in self.instead:
            return 200, "application/json", self.instead[path], True
        return await super()._route(method, path, headers, reader)


class DriverFleet:
    """A number of doubles, and a poller that follows all of them."""

    def __init__(self, number, **settings):
        given = {"poll_seconds": 0.05, "control_timeout_seconds": 0.5, "command_wait_seconds": 0.2}
        self.settings = OperatorSettings(**(given | settings))
        self.number, self.changed, self.metrics = number, asyncio.Event(), Metrics()
        self.doubles, self.addresses = [], {}

    async def __aenter__(self):
        self._stack = contextlib.AsyncExitStack()
        for number, credentials in enumerate(await mint(self.number)):
            double = ScriptedDriver(token=credentials.token)
            await double.start(ssl_context=server_context(credentials.certificate, credentials.key))
            self._stack.push_async_callback(double.stop, abruptly=True)
            pin = fingerprint(credentials.certificate)
            self.addresses[str(number)] = DriverAddress(1, double.url, credentials.token, pin)
            self.doubles.append(double)
        client = await self._stack.enter_async_context(ControlClient(self.settings.control_timeout_seconds))
        self.drivers = DriverPoller(
            client,
            lambda driver: self.locate(driver),
            self.settings,
            self.metrics,
            enqueue=lambda _: self.changed.set(),
            now_ms=wall_ms,
        )
        self._stack.push_async_callback(self.drivers.close)
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def locate(self, driver):
        return self.addresses[driver.pod_name]

    def follow(self, *numbers):
        for number in numbers or range(self.number):
            self.drivers.follow(self.key(number), DriverRef("shop", str(number), f"uid-{number}", 1, True, "127.0.0.1"))

    @staticmethod
    def key(number):
        return "shop", str(number)

    def look(self, number=0):
        return self.drivers.report(self.key(number), 1)

    def looks(self, outcome):
        return self.metrics.registry.get_sample_value("backfill_operator_driver_polls_total", {"outcome": outcome}) or 0

    def pause(self, number, revision=1):
        self.drivers.send(self.key(number), (CommandRequest(attempt=1, revision=revision, command=PAUSE),))

    async def until(self, true, within_s=60.0):
        async with asyncio.timeout(within_s):
            while not true():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self.changed.wait()


UNUSABLE = {
    "nested too deeply": ("/v1/progress", b"[" * 500_000),
    "half of a surrogate": ("/v1/progress", b'{"reason":"\\ud800"}'),
    "no number": ("/v1/progress", b'{"rowsDone":NaN}'),
    "an endless number": ("/v1/progress", b'{"rowsDone":1e400}'),
    "a number of 5,000 digits": ("/v1/progress", b"9" * 5000),
    "a receipt that no status can hold": ("/v1/receipt", json.dumps(RECEIPT | {"verifiedAt": "x" * 99}).encode()),
}


class TestWhateverADriverSays:
    @pytest.mark.parametrize(("path", "body"), UNUSABLE.values(), ids=UNUSABLE.keys())
    async def test_driver_is_polled_again_after_any_answer(self, path, body):
        """An answer that ends its task would leave the job without pause, stop and progress."""
        async with DriverFleet(1) as fleet:
            [double] = fleet.doubles
            double.instead[path] = body
            fleet.follow()
            await fleet.until(lambda: fleet.look() and fleet.look().unreachable_since_ms)
            assert fleet.look().unreachable
            double.instead.clear()
            await fleet.until(lambda: fleet.look().heard_ms and fleet.look().unreachable_since_ms is None)

            assert fleet.looks("answered") >= 1
            assert fleet.look().unreachable == ""

    async def test_receipt_out_of_range_is_unusable(self):
        """The client checks it on arrival, and the driver is polled again."""
        async with DriverFleet(1) as fleet:
            fleet.doubles[0].instead["/v1/receipt"] = UNUSABLE["a receipt that no status can hold"][1]
            fleet.follow()
            await fleet.until(lambda: fleet.looks("unreachable") >= 2)


class TestUnresponsiveDrivers:
    async def test_unresponsive_drivers_do_not_delay_others(self):
        """The limit is one request at a time. Three drivers never answer, and the fourth is polled as if it were the only one."""
        async with DriverFleet(4, poll_concurrency=1) as fleet:
            for double in fleet.doubles[:3]:
                double.unresponsive = True
            fleet.follow()
            await fleet.until(lambda: all((one := fleet.look(n)) and one.unreachable_since_ms for n in range(3)))
            before = fleet.doubles[3].asked
            await fleet.until(lambda: fleet.doubles[3].asked >= before + 8, within_s=5)

    async def test_command_does_not_wait_for_a_time_out(self):
        """Polls have a separate lane."""
        async with DriverFleet(2, poll_concurrency=1, control_timeout_seconds=600.0) as fleet:
            fleet.follow(1)
            await fleet.until(lambda: fleet.look(1) and fleet.look(1).heard_ms)
            fleet.doubles[0].unresponsive = True
            fleet.follow(0)
            await fleet.until(lambda: fleet.doubles[0].unanswered)
            fleet.pause(1)
            await fleet.until(lambda: any(ack.outcome == "Applied" for ack in fleet.look(1).acks))

    async def test_unresponsive_drivers_are_polled_less_often(self):
        """The interval grows to ten seconds. Commands that were sent before do not change that, but a new command is sent at once."""
        async with DriverFleet(1, poll_seconds=UNRESPONSIVE_EVERY_S, control_timeout_seconds=0.1) as fleet:
            fleet.doubles[0].unresponsive = True
            fleet.follow()
            await fleet.until(lambda: fleet.looks("unreachable") == 1)
            fleet.pause(0)
            await fleet.until(lambda: fleet.looks("unreachable") == 2)
            for _ in range(5):
                fleet.pause(0)
                with pytest.raises(TimeoutError):
                    await fleet.until(lambda: fleet.looks("unreachable") > 2, within_s=0.1)
            fleet.pause(0, revision=2)
            await fleet.until(lambda: fleet.looks("unreachable") == 3)


class TestTheAddress:
    async def test_address_from_before_a_change_is_not_kept(self):
        """The read of the Secret may end after the pod has a new address. Until then the driver seemed unresponsive."""
        async with DriverFleet(1) as fleet:
            known, asked, answered = fleet.addresses["0"], asyncio.Event(), asyncio.Event()

            async def locate(driver):
                if driver.ip != "127.0.0.2":
                    asked.set()
                    await answered.wait()
                    return replace(known, url="https://127.0.0.1:1")
                return known

            fleet.locate = locate
            fleet.follow()
            await asked.wait()
            fleet.drivers.follow(fleet.key(0), DriverRef("shop", "0", "uid-0", 1, True, "127.0.0.2"))
            answered.set()

            await fleet.until(lambda: fleet.look() and fleet.look().heard_ms)
