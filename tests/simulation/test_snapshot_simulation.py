"""The core against a world with virtual time, chance, faults and crashes; the oracle looks at every seal."""

import json

import pytest
from support.sim_world import World

from backfill_core.messages import Pause, Resume, Stop, Throttle, VerifyNow

STEPS_MAX = 6000


def run(world, *, write_chance=0.05, crash_chance=0.0, writes_max=60):
    """Let the world go on to its end; return how often it crashed."""
    crashes = writes = 0
    for _ in range(STEPS_MAX):
        if writes < writes_max and world.chance.random() < write_chance:
            world.upstream.write()
            writes += 1
        attempt = world.attempt
        alive = world.step(crash_chance=crash_chance)
        crashes += world.attempt != attempt
        if not alive:
            return crashes
    raise AssertionError(f"no end after {STEPS_MAX} steps: {world.job.view(world.now())}")


class TestTheTargetIsTheSourceAtEverySeal:
    """R-SNAP-8, R-SNAP-9, R-SNAP-19, R-SNAP-22, R-SNAP-35: checked by the world at each commit."""

    @pytest.mark.parametrize("seed", range(60))
    def test_with_a_changing_source(self, seed):
        world = World(seed, merges=seed % 3 != 0, rate=[None, 20, 7][seed % 3 - 1], verify=seed % 2 == 0)
        run(world)

        assert world.finish.outcome == "Complete"
        assert json.loads(world.state_text)["finished"]

    @pytest.mark.parametrize("seed", range(100))
    def test_with_crashes_at_any_moment(self, seed):
        """R-SNAP-6, R-SNAP-7, R-SNAP-37, R-SNAP-38, R-SNAP-39: nothing is lost or doubled by a restart."""
        world = World(1000 + seed, merges=seed % 4 != 0, rate=None if seed % 2 else 25, verify=seed % 3 == 0)
        run(world, crash_chance=0.02)

        assert world.finish.outcome == "Complete"

    @pytest.mark.parametrize("seed", range(60))
    def test_with_failures_of_everything(self, seed):
        world = World(2000 + seed, merges=seed % 3 != 0, faults=0.04, verify=seed % 2 == 0)
        run(world, crash_chance=0.01)

        assert world.finish.outcome == "Complete", world.finish

    @pytest.mark.parametrize("at", range(1, 60))
    def test_with_a_crash_after_each_step_of_a_small_job(self, at):
        world = World(7, rows=12, files=3)
        for step in range(STEPS_MAX):
            if step == at:
                world.crash()
            if step % 9 == 0 and step < 100:
                world.upstream.write()
            if not world.step():
                break

        assert world.finish.outcome == "Complete"


class TestAnEmptySource:
    """R-SNAP-32 and the edge cases of 2.2."""

    def test_finishes_with_nothing_read(self):
        world = World(1, rows=1, files=1)
        world.upstream.versions[0].clear()
        world.files, world.line = [0], []
        world.open()
        run(world, write_chance=0)

        assert world.finish.outcome == "Complete"
        assert world.read_log == []


class TestCommands:
    """Carried by the next barrier, acknowledged after its seal."""

    def test_an_acknowledged_pause_is_in_the_sealed_state_and_is_quiet(self):
        """R-SNAP-43: history stops; R-SNAP-40: the barrier does not wait for splits."""
        world = World(3, rows=400, files=40, rate=20)
        for _ in range(40):
            world.step()
        world.send(Pause(), 1)
        while not world.acks:
            world.step()
        for _ in range(12):
            world.step()
        read = len(world.read_log)
        for _ in range(60):
            world.upstream.write()
            world.step()

        assert world.acks[0].outcome == "Applied"
        assert json.loads(world.state_text)["controls"]["paused"] == "History"
        assert len(world.read_log) == read
        assert world.job.view(world.now()).quiet

    def test_a_pause_outlives_a_crash_and_a_resume_ends_it(self):
        world = World(4, rows=400, files=40, rate=30)
        for _ in range(30):
            world.step()
        world.send(Pause(), 1)
        while not world.acks:
            world.step()
        world.crash()
        for _ in range(30):
            world.step()
        before = json.loads(world.state_text)["rowsDone"]
        for _ in range(30):
            world.step()
        assert json.loads(world.state_text)["rowsDone"] == before
        world.send(Resume(), 2)
        run(world)

        assert world.finish.outcome == "Complete"

    def test_log_replay_goes_on_in_a_pause_of_history_but_not_of_all(self):
        """R-SNAP-43."""
        for everything in (False, True):
            world = World(5, rows=10, files=2, follow=True)
            while json.loads(world.state_text or '{"snapshot":{"phase":"Snapshot"}}')["snapshot"]["phase"] == "Snapshot":
                world.step()
            world.send(Pause(everything=everything), 1)
            while not world.acks:
                world.step()
            for _ in range(40):
                world.step()
            consumed = json.loads(world.state_text)["consumed"]
            world.upstream.write()
            for _ in range(80):
                world.step()

            assert (json.loads(world.state_text)["consumed"] > consumed) is not everything

    def test_a_forced_pause_is_quiet_within_half_a_second(self):
        world = World(6, rows=4000, files=4)
        while not world.in_flight:
            world.step()
        asked_s = world.now_s
        world.send(Pause(force=True), 1)
        while not (world.acks and world.job.view(world.now()).quiet):
            world.step()

        assert world.now_s - asked_s <= 0.5

    @pytest.mark.parametrize("seed", range(10))
    def test_a_pause_is_quiet_within_its_budget(self, seed):
        world = World(60 + seed, rows=4000, files=4)
        while not world.in_flight:
            world.step()
        asked_s = world.now_s
        world.send(Pause(), 1)
        while not (world.acks and world.job.view(world.now()).quiet):
            world.step()

        assert world.now_s - asked_s <= 2.5

    def test_a_repeated_an_older_and_a_strangers_command_are_answered_and_ignored(self):
        world = World(8, rows=400, files=20, rate=10)
        for _ in range(20):
            world.step()
        world.send(Throttle(50), 5)
        while not world.acks:
            world.step()
        world.send(Throttle(50), 5)
        world.send(Throttle(1), 4)
        world.send(Throttle(1), 9, attempt=99)

        assert [ack.outcome for ack in world.acks] == ["Applied", "Applied", "Superseded", "WrongAttempt"]
        assert world.job.view(world.now()).controls.rows_per_s == 50

    def test_a_limit_of_zero_reads_nothing_and_a_raised_one_goes_on(self):
        """R-SNAP-41."""
        world = World(9, rows=100, files=5, rate=0)
        for _ in range(60):
            world.step()
        assert world.read_log == []
        world.send(Throttle(None), 1)
        run(world)

        assert world.finish.outcome == "Complete"

    @pytest.mark.parametrize("rate", [1, 2, 10, 40])
    def test_a_limit_is_kept_over_time(self, rate):
        """R-SNAP-41, R-SNAP-42."""
        world = World(10, rows=500, files=5, rate=rate)
        began_s = world.now_s
        while world.now_s - began_s < 10:
            world.step()
        done = json.loads(world.state_text)["rowsDone"]

        assert rate * 7 <= done <= rate * 11

    def test_stop_ends_at_a_barrier_and_the_next_attempt_goes_on(self):
        world = World(11, rows=300, files=30, rate=40)
        for _ in range(40):
            world.step()
        world.send(Stop(), 1)
        run(world, write_chance=0)
        assert world.finish.outcome == "Stopped"
        world.finish = None
        world.crash()
        run(world)

        assert world.finish.outcome == "Complete"

    def test_a_receipt_can_be_taken_in_every_phase(self):
        world = World(12, rows=200, files=20, rate=50, follow=True)
        for revision in range(1, 8):
            world.send(VerifyNow(), revision)
            for _ in range(60):
                world.step()
            assert world.job.view(world.now()).receipt is not None
        assert world.finish is None

    @pytest.mark.parametrize("seed", range(40))
    def test_any_commands_at_any_time_with_crashes(self, seed):
        world = World(3000 + seed, rows=120, files=9, rate=60, merges=seed % 2 == 0)
        commands = [Pause(), Pause(everything=True), Pause(force=True), Resume(), Throttle(5), Throttle(80, 3.0), VerifyNow()]
        for revision in range(1, 25):
            world.send(world.chance.choice(commands), revision)
            for _ in range(world.chance.randrange(25)):
                if world.chance.random() < 0.02:
                    world.crash()
                if world.chance.random() < 0.1:
                    world.upstream.write()
                if not world.step():
                    break
            if world.finish:
                break
        if world.finish is None:
            world.send(Resume(), 100)
            world.send(Throttle(None), 101)
            run(world)

        assert world.finish.outcome == "Complete"


class TestProgress:
    """R-SNAP-36, R-SNAP-44, R-PROG-4: never backwards, over crashes too."""

    @pytest.mark.parametrize("seed", range(10))
    def test_sealed_progress_never_moves_backwards(self, seed):
        world = World(4000 + seed, rows=150, files=12, rate=50)
        seen = []
        for step in range(STEPS_MAX):
            if step % 37 == 36:
                world.crash()
            if step % 10 == 0 and step < 300:
                world.upstream.write()
            alive = world.step()
            if world.state_text:
                state = json.loads(world.state_text)
                seen.append((state["rowsDone"], state["snapshot"]["consumed"], state["attempt"], state["epoch"]))
            if not alive:
                break

        assert all(later[i] >= sooner[i] for sooner, later in zip(seen, seen[1:], strict=False) for i in range(4))

    def test_a_crash_redoes_at_most_the_splits_in_flight(self):
        world = World(13, rows=600, files=60, rate=100)
        for _ in range(60):
            world.step()
        sealed = json.loads(world.state_text)["rowsDone"]
        read = sum(stop - start for _, start, stop in world.read_log)

        # Two quotas of one second each: one being read, one waiting for its barrier.
        assert read - sealed <= 3 * 110
