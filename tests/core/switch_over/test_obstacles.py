"""Obstacles are found before the fence, all at once; a spec that cannot be switched over is refused by its field."""

from dataclasses import replace

import pytest
from support.source_fence.memory_log import after_entry, table_head
from support.source_fence.switch_world import REQUEST
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError, SwitchBlockedError
from backfill_core.source_fence.fence import fence_step
from backfill_core.source_fence.table_protocol import TableProtocol
from backfill_core.switch_over.mark import Mark, record_step
from backfill_core.switch_over.obstacles import Findings, check_mark, check_not_in_use, check_spec, may_pass, obstacles
from backfill_core.switch_over.source_name import point_step, unpoint_step

OPEN = Findings(
    source=table_head(), target=replace(table_head(), path="/lake/v2"), job="shop/orders", behind=1, lag_s=2.0, key_proven=True,
    name="/lake/orders", has_name=True, receipt_s=1.0, receipt_age_s=60.0,
)  # fmt: skip
FOLLOWING = {"switch": {"keepSource": "Following"}}
FENCED = after_entry(OPEN.target, fence_step(OPEN.target, REQUEST))

MARK = Mark("Flipping", 5, "/lake/v2", 7, "{}", "{}", "state", REQUEST.time)


class TestASpec:
    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ({"after": "Exit"}, "spec.after: a switch-over needs a job that follows its source, and it is Exit"),
            ({"target": {"writeMode": "Append", "existingRows": "Keep"}}, "spec.target.delta.existingRows: Keep"),
            (
                {"target": {"writeMode": "Changelog"}},
                "spec.target.delta.writeMode: a changelog has a row for each change",
            ),
            (
                FOLLOWING,
                "spec.switch.keepSource: Following copies whole files back, which strategy Snapshot does not copy",
            ),
            (
                FOLLOWING | {"strategy": {"type": "Replica"}, "transform": {"select": ["id"]}},
                "needs equal tables, and spec.transform.select changes the rows",
            ),
            (
                FOLLOWING | {"strategy": {"type": "Replica"}, "transform": {"where": "id > 0"}},
                "needs equal tables, and spec.transform.where changes the rows",
            ),
        ],
    )
    def test_that_cannot_be_switched_over_is_refused_by_its_field(self, spec, message):
        """Neither table is opened for it."""
        with pytest.raises(InvalidSpecError) as refused:
            check_spec(job("/s", "/t", **({"after": "Follow"} | spec)).spec)

        assert message in refused.value.message

    def test_that_follows_is_accepted(self):
        """The strategy matters only for a source that follows."""
        check_spec(job("/s", "/t", after="Follow").spec)
        check_spec(job("/s", "/t", after="Follow", **FOLLOWING, strategy={"type": "Replica"}).spec)


class TestObstacles:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"behind": None, "target": None}, "does not hold the whole history"),
            ({"lag_s": 31.0, "behind": 9}, "lacks 9 versions of 31 s, above --max-lag 30 s"),
            ({"paused": True}, "the job is paused, and the target lacks 1 version: resume it"),
            ({"key_proven": False}, "not proven unique"),
            ({"target": FENCED}, "the target /lake/v2 is read-only (job 'shop/orders' at version 5"),
            (
                {"target": replace(OPEN.target, protocol=TableProtocol(3, 7, (), ("icebergWriterCompatV9",)))},
                "an undo must fence the target: /lake/v2 cannot be fenced: this release does not know the rules",
            ),
            ({"name": "/lake/elsewhere"}, "the name points to /lake/elsewhere, not to the source /lake/orders"),
            ({"name": None}, "the name points to no folder"),
            ({"irreversible": "the columns differ"}, "spec.switch.keepSource: Following is not possible: the columns"),
        ],
    )
    def test_each_is_named_with_its_values(self, change, message):
        """The user removes it and tries again."""
        [found] = obstacles(replace(OPEN, **change), max_lag_s=30)

        assert message in found

    def test_all_are_found_at_once(self):
        """A dry run lists everything that would block."""
        assert obstacles(OPEN, max_lag_s=30) == ()
        assert obstacles(replace(OPEN, name=None, has_name=False), max_lag_s=30) == ()
        assert len(obstacles(replace(OPEN, lag_s=99.0, key_proven=False, name="/x"), max_lag_s=30)) == 3

    @pytest.mark.parametrize(
        ("change", "passes"),
        [
            ({"behind": None, "target": None}, True),
            ({"lag_s": 31.0, "behind": 9, "key_proven": False}, True),
            ({"behind": 1, "irreversible": "the columns differ"}, True),
            ({"behind": 0, "irreversible": "the columns differ"}, False),
            ({"behind": None, "name": "/lake/elsewhere"}, False),
            ({"behind": 9, "target": FENCED}, False),
            ({"behind": 9, "paused": True}, False),
            ({"behind": 0, "paused": True}, True),
        ],
    )
    def test_only_those_of_a_target_behind_its_source_may_pass(self, change, passes):
        """A command does not wait for what only a user can change."""
        assert may_pass(replace(OPEN, **change)) is passes


class TestASwitchOverUnderWay:
    """Another flip would change a name that the stored definition does not belong to."""

    @pytest.mark.parametrize(("target", "flip"), [("/lake/v3", "{}"), ("/lake/v2", '{"type": "View"}')])
    def test_keeps_its_target_and_its_flip(self, target, flip):
        """A user may edit the file between two runs."""
        with pytest.raises(SwitchBlockedError, match="under way"):
            check_mark(MARK, target=target, flip=flip)
        check_mark(MARK, target="/lake/v2", flip="{}")
        check_mark(None, target=target, flip=flip)

    def test_refuses_a_new_copy_into_the_table_that_is_in_use(self):
        """The job has left this table, so its state does not protect it; an undo is the way back."""
        spec, fenced = job("/lake/orders", "/lake/v2").spec, after_entry(OPEN.source, fence_step(OPEN.source, REQUEST))
        marked = after_entry(fenced, record_step(fenced, REQUEST, MARK, before=None))

        with pytest.raises(
            SwitchBlockedError, match=r"^spec\.target\.delta: /lake/v2 has replaced /lake/orders"
        ) as refused:
            check_not_in_use(marked, None, spec, path="/lake/v2")
        assert "--undo" in refused.value.hint
        check_not_in_use(marked, None, spec, path="/lake/v3")
        check_not_in_use(fenced, OPEN.target, spec, path="/lake/v2")


class TestACompletedSwitchOver:
    """The source has no mark any more, and the target knows which table it has replaced."""

    def test_refuses_a_copy_of_the_old_table_until_the_user_allows_it(self):
        """The old table may accept writes again, so only a user can tell whether its rows belong to the new one."""
        spec, source = job("/lake/orders", "/lake/v2").spec, OPEN.source
        replacing = after_entry(OPEN.target, point_step(OPEN.target, REQUEST, source.path))

        with pytest.raises(SwitchBlockedError, match=rf"a completed switch-over has replaced {source.path}") as refused:
            check_not_in_use(source, replacing, spec, path="/lake/v2")
        assert "UNSET TBLPROPERTIES ('backfill.switchedFrom')" in refused.value.hint
        check_not_in_use(source, after_entry(replacing, unpoint_step(replacing, REQUEST)), spec, path="/lake/v2")

    def test_allows_a_copy_of_another_table(self):
        """The table is one like any other for all jobs but those of its predecessor."""
        replacing = after_entry(OPEN.target, point_step(OPEN.target, REQUEST, "/lake/v0"))

        check_not_in_use(OPEN.source, replacing, job("/lake/orders", "/lake/v2").spec, path="/lake/v2")
