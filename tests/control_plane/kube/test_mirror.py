"""The mirror of a real API server, in which the rig's tests read: it shows all kinds of objects as of one time."""

import asyncio

WRITES = 40


async def test_mirror_shows_no_object_older_than_another_kind(real):
    """A test that has seen a pod reads the status that was written before it, and the other way round."""
    async with real(start=False) as rig:
        rig.create(suspend=True)
        await rig.until(rig.get)
        wrong = []

        def listen(*_):
            configured = sum(name.startswith("number-") for _, name in rig.store.objects["configmaps"])
            noted = int(rig.get()["metadata"].get("annotations", {}).get("number", 0))
            if not configured <= noted <= configured + 1:
                wrong.append((configured, noted))

        def write():
            for number in range(1, WRITES + 1):
                rig.annotate(number=str(number))
                rig.store.create("configmaps", rig.namespace, {"metadata": {"name": f"number-{number}"}})

        rig.store.listeners.append(listen)
        await asyncio.to_thread(write)
        await rig.until(lambda: (rig.namespace, f"number-{WRITES}") in rig.store.objects["configmaps"])

        assert wrong == []
