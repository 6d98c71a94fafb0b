"""The switch for all jobs, with the whole operator: its ConfigMap pauses every driver and holds launches."""

import json

from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import ALL_JOBS_CONFIG_MAP, ALL_JOBS_KEY

JOBS = 50
MESSAGE = "all jobs are paused by anna (claimed): incident 4711"


def rig_of(**options):
    """Return an operator whose own namespace is that of the jobs."""
    return Rig(lease_namespace=NAMESPACE, **options)


def switch(rig, text):
    """Write the ConfigMap of the switch."""
    if (NAMESPACE, ALL_JOBS_CONFIG_MAP) in rig.store.objects["configmaps"]:
        rig.store.patch("configmaps", NAMESPACE, ALL_JOBS_CONFIG_MAP, {"data": {ALL_JOBS_KEY: text}})
    else:
        body = {"metadata": {"name": ALL_JOBS_CONFIG_MAP}, "data": {ALL_JOBS_KEY: text}}
        rig.store.create("configmaps", NAMESPACE, body)


def pause(rig):
    """Pause all jobs."""
    switch(rig, json.dumps({"enabled": True, "note": "incident 4711", "by": "anna"}))


def paused(rig, name="orders"):
    """Return whether the driver acknowledged the pause of all jobs."""
    return rig.condition("Paused", name) == ("True", "AllJobsPaused")


class TestTheSwitch:
    """Every driver acknowledges it, and returns to its own state afterwards."""

    async def test_drivers_pause_and_return_to_their_own_state(self):
        """One job runs with a limit, and one is paused by its spec."""
        async with rig_of() as rig:
            rig.create("limited", throttle={"rowsPerSecond": 500})
            rig.create("held", desiredState="Paused")
            await rig.until(lambda: rig.holds("Running", "limited") and rig.holds("Paused", "held"))
            pause(rig)
            await rig.until(lambda: paused(rig, "limited") and paused(rig, "held"))

            for name in ("limited", "held"):
                assert rig.double(name).progress.paused == "All"
                assert rig.message("Ready", name) == MESSAGE
                assert rig.status(name)["allJobsPause"]["note"] == "incident 4711"
                assert rig.status(name)["control"]["acks"][-1]["by"] == "anna"
            switch(rig, '{"enabled": false}')
            await rig.until(
                lambda: rig.holds("Running", "limited") and rig.condition("Paused", "held") == ("True", "AsRequested")
            )
            assert (rig.double("limited").progress.paused, rig.double("held").progress.paused) == (None, "History")
            assert rig.double("limited").progress.throttle_rows_per_second == 500
            assert not any("allJobsPause" in rig.status(name) for name in ("limited", "held"))

    async def test_launches_wait_and_follow_the_end_of_the_switch(self):
        """The ConfigMap exists before the operator starts; its deletion is the end."""
        async with rig_of(start=False) as rig:
            pause(rig)
            rig.create()
            rig.start()
            await rig.until(lambda: rig.condition("Ready") == ("False", "AllJobsPaused"))
            await rig.still(lambda: rig.pods() == {}, for_s=0.5)
            rig.store.delete("configmaps", NAMESPACE, ALL_JOBS_CONFIG_MAP)
            await rig.until_holds("Running")

    async def test_invalid_content_keeps_the_pause_even_after_a_restart(self):
        """It is logged; a typo must not resume 1,000 jobs."""
        async with rig_of() as rig:
            rig.create()
            await rig.until_holds("Running")
            pause(rig)
            await rig.until(lambda: paused(rig))
            switch(rig, '{"enabled": "false"}')
            await rig.still(lambda: paused(rig), for_s=0.5)
            rig.restart()
            await rig.until(lambda: rig.operator is not None and rig.operator.drivers.report((NAMESPACE, "orders"), 1))
            await rig.still(lambda: paused(rig) and rig.double().progress.paused == "All", for_s=0.5)

    async def test_a_broken_watch_delays_the_switch_only(self):
        """The list after the reconnect has the new state."""
        async with rig_of(watch_retry_max_seconds=0.5) as rig:
            rig.create()
            await rig.until_holds("Running")
            for _ in range(3):
                rig.api.break_watches()
            rig.api.forget()
            pause(rig)
            await rig.until(lambda: paused(rig))

    async def test_fifty_jobs_acknowledge_one_switch(self):
        """`make bench-operator ARGS="--only pause"` measures their time."""
        async with rig_of(workers=16, poll_seconds=2.0) as rig:
            names = [f"job-{number}" for number in range(JOBS)]
            for name in names:
                rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}})
            await rig.until(lambda: all(rig.holds("Running", name) for name in names))
            pause(rig)
            await rig.until(lambda: all(paused(rig, name) for name in names))

            assert all(rig.double(name).progress.paused == "All" for name in names)
