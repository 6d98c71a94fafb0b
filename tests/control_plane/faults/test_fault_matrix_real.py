"""What goes wrong between the operator and a real API server: its own words, behind a proxy that loses, delays and refuses.

The rows of tests/control_plane/faults/test_fault_matrix.py that are about the server; skipped where there is none. A real server that
shares two cores with the test has three times as long (`patience` of the rig).
"""

import pytest
from support.cluster.fake_api import Fault

TRUE_WITHIN_S = 10.0
LAUNCH = ["configmaps", "secrets", "services", "pods"]


async def one_driver_after(rig, *faults):
    """Launch through faults; the status is true soon, and there is one driver."""
    rig.api.faults.extend(faults)
    rig.create()
    await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

    assert any(one.status for one in rig.api.requests), "nothing went through the proxy"
    assert [fault for fault in faults if fault.times > 0] == []
    await rig.until(rig.has_one_driver)
    assert rig.attempt() == 1


class TestARealServer:
    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    @pytest.mark.parametrize("plural", LAUNCH)
    async def test_a_create_without_an_answer(self, real, what, plural):
        """It may have been done, or not; the name says which."""
        async with real() as rig:
            await one_driver_after(rig, Fault(what, verb="create", plural=plural))

    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    async def test_a_status_without_an_answer(self, real, what):
        """Three in a row."""
        async with real() as rig:
            await one_driver_after(rig, Fault(what, verb="patch", plural="backfills", subresource="status", times=3))

    async def test_another_writer_is_quicker(self, real):
        """A 409 of the server's own: the version that was seen is none any more."""
        async with real() as rig:

            def edit(_request):
                rig.annotate(edited="yes" + str(fault.times))

            fault = Fault("action", verb="patch", plural="backfills", action=edit, times=3)
            await one_driver_after(rig, fault)
            assert [one for one in rig.api.requests if one.status == 409]

    async def test_a_forgotten_past(self, real):
        """410: the watches begin anew from a list."""
        async with real(relist_min_seconds=60, relist_max_seconds=60) as rig:
            rig.create("before")
            await rig.until_holds("Running", "before")
            for number in range(3):
                rig.api.forget()
                rig.create(f"after-{number}")
                await rig.until_holds("Running", f"after-{number}", within_s=TRUE_WITHIN_S)

    async def test_410_during_a_list(self, real):
        """It begins anew."""
        async with real(page_size=10) as rig:
            rig.api.faults.append(Fault("answer", verb="list", status=410, reason="Expired", after=2, times=3))
            for number in range(15):
                rig.create(f"job-{number}", suspend=True)
            for number in range(15):
                await rig.until_holds("Suspended", f"job-{number}", within_s=TRUE_WITHIN_S)

    @pytest.mark.parametrize(
        ("status", "reason", "retry_after"), [(429, "TooManyRequests", 1), (500, "InternalError", None)]
    )
    async def test_a_storm_passes(self, real, status, reason, retry_after):
        """Of everything, reads too."""
        async with real() as rig:
            storm = Fault("answer", status=status, reason=reason, retry_after=retry_after, dry_run=None, times=20)
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.api.faults.append(storm)
            rig.create("during")
            await rig.until(lambda: storm.times <= 0, within_s=20)
            await rig.until_holds("Running", "during", within_s=TRUE_WITHIN_S)

            assert sorted(rig.pods()) == ["before-1-driver", "during-1-driver"]

    async def test_a_slow_server(self, real):
        """Answers that come too late are none, and what they did is found."""
        async with real(request_timeout_seconds=0.5) as rig:
            await one_driver_after(rig, Fault("slow", verb="create", plural="pods", seconds=2))

    async def test_a_silent_watch(self, real):
        """No event arrives, and every change is seen: appearing, and going."""
        async with real() as rig:
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.api.silent = True
            rig.create("during")
            await rig.until_holds("Running", "during", within_s=TRUE_WITHIN_S)
            rig.delete("before")
            await rig.until(lambda: rig.get("before") is None, TRUE_WITHIN_S)

    @pytest.mark.parametrize("when", ["lose the request", "lose the answer"])
    @pytest.mark.parametrize("write", range(0, 9, 2))
    async def test_an_operator_that_dies_around_a_write(self, real, when, write):
        """The server kept the change; the next operator finds it."""
        async with real() as rig:
            rig.api.faults.append(Fault(when, writes=True, dry_run=None, after=write, action=rig.kill))
            rig.create()
            await rig.until(lambda: not rig.running.alive or rig.holds("Running"))
            rig.restart()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            await rig.until(rig.has_one_driver)

            assert rig.attempt() == 1
