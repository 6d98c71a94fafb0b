"""Random jobs in callers' sessions: the rows equal those of a plain session, through changes after the pin.

Plain Spark computes the expected rows in a plain session; delta-rs reads the actual rows.
`BACKFILL_ATTACK_SEED=n` repeats one seed.
"""

import pytest
from support import attack
from support.sessions.callers import active_session, callers_session
from support.sessions.worlds import Lake, World
from support.tables.oracle import differences

from backfill.errors import BackfillError
from backfill_spark.jvm.gateway import java_session

pytestmark = pytest.mark.rest


def settings_of(session):
    """Return the settings of a session, without the versions that Delta keeps there."""
    return {name: value for name, value in session.conf.getAll.items() if "lastCommitVersion" not in name}


def faults(spark, folder, world):
    """Return the errors of a job in a caller's session."""
    lake = Lake(spark, folder, world)
    with callers_session(spark, world.built, world.own) as caller:
        settings, active = settings_of(caller), active_session(spark)
        try:
            lake.run(caller)
        except BackfillError as error:
            return [f"{error.reason}: {error.message}"]
        left = [] if settings_of(caller) == settings else ["the caller's settings are changed"]
        left += [] if active_session(spark).equals(active) else ["the active session of the caller's thread is changed"]
    lake.expect()
    differing = [*differences(lake.target, lake.expected), *left]
    lake.remove()
    return differing


class TestCallersSessions:
    """No setting of a caller's session changes a row of a target."""

    def test_rows_are_those_of_a_plain_session(self, spark, tmp_path):
        """The default session and the active session of the calling thread have different settings, too."""
        for seed in attack.seeds(6):
            world = World.drawn(seed)
            assert (str(world), faults(spark, tmp_path / str(seed), world)) == (str(world), [])
        assert active_session(spark).equals(java_session(spark))
