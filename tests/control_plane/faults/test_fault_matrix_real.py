"""Faults between the operator and a real API server, behind a proxy that loses, delays and refuses requests.

These are the rows of tests/control_plane/faults/test_fault_matrix.py that concern the server. They are skipped without a server.
A real server that shares two cores with the test has three times as long (`patience` of the rig).
"""

import pytest
from support.cluster.fake_api import Fault

TRUE_WITHIN_S = 10.0
LAUNCH = ["configmaps", "secrets", "services", "pods"]


async def one_driver_after(rig, *faults):
    """Launch during faults; then the status is true soon, and there is one driver."""
    rig.api.faults.extend(faults)
    rig.create()
    await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

    assert any(request.status for request in rig.api.requests), "nothing went through the proxy"
    assert [fault for fault in faults if fault.times > 0] == []
    await rig.until(rig.has_one_driver)
    assert rig.attempt() == 1


class TestARealServer:
    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    @pytest.mark.parametrize("plural", LAUNCH)
    async def test_create_without_an_answer_leaves_one_driver(self, real, what, plural):
        """The parameter's name tells whether the create was executed."""
        async with real() as rig:
            await one_driver_after(rig, Fault(what, verb="create", plural=plural))

    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    async def test_status_write_without_an_answer_is_repeated(self, real, what):
        """Three answers in a row are lost."""
        async with real() as rig:
            await one_driver_after(rig, Fault(what, verb="patch", plural="backfills", subresource="status", times=3))

    async def test_another_writer_is_faster(self, real):
        """The server answers 409, because the version that was read is outdated."""
        async with real() as rig:

            def edit(_request):
                rig.annotate(edited="yes" + str(fault.times))

            fault = Fault("action", verb="patch", plural="backfills", action=edit, times=3)
            await one_driver_after(rig, fault)
            assert [request for request in rig.api.requests if request.status == 409]

    async def test_watches_restart_after_an_expired_version(self, real):
        """After a 410, the watches start again from a list."""
        async with real(relist_min_seconds=60, relist_max_seconds=60) as rig:
            rig.create("before")
            await rig.until_holds("Running", "before")
            for number in range(3):
                rig.api.forget()
                rig.create(f"after-{number}")
                await rig.until_holds("Running", f"after-{number}", within_s=TRUE_WITHIN_S)

    async def test_list_restarts_after_an_expired_version(self, real):
        """It starts from the first page."""
        async with real(page_size=10) as rig:
            rig.api.faults.append(Fault("answer", verb="list", status=410, reason="Expired", after=2, times=3))
            for number in range(15):
                rig.create(f"job-{number}", suspend=True)
            for number in range(15):
                await rig.until_holds("Suspended", f"job-{number}", within_s=TRUE_WITHIN_S)

    @pytest.mark.parametrize(
        ("status", "reason", "retry_after"), [(429, "TooManyRequests", 1), (500, "InternalError", None)]
    )
    async def test_error_storm_leaves_one_driver(self, real, status, reason, retry_after):
        """All requests fail, including reads."""
        async with real() as rig:
            storm = Fault("answer", status=status, reason=reason, retry_after=retry_after, dry_run=None, times=20)
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.api.faults.append(storm)
            rig.create("during")
            await rig.until(lambda: storm.times <= 0, within_s=20)
            await rig.until_holds("Running", "during", within_s=TRUE_WITHIN_S)

            assert sorted(rig.pods()) == ["before-1-driver", "during-1-driver"]

    async def test_slow_server_leaves_one_driver(self, real):
        """Late answers count as missing, and their results are found."""
        async with real(request_timeout_seconds=0.5) as rig:
            await one_driver_after(rig, Fault("slow", verb="create", plural="pods", seconds=2))

    async def test_list_repairs_a_silent_watch(self, real):
        """No event arrives, but every creation and deletion is found."""
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
    async def test_operator_that_dies_around_a_write_has_a_successor(self, real, when, write):
        """The server kept the change, and the next operator finds it."""
        async with real() as rig:
            rig.api.faults.append(Fault(when, writes=True, dry_run=None, after=write, action=rig.kill))
            rig.create()
            await rig.until(lambda: not rig.running.alive or rig.holds("Running"))
            rig.restart()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            await rig.until(rig.has_one_driver)

            assert rig.attempt() == 1
