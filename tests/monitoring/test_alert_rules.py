"""Each alert fires when it should and not otherwise, in Prometheus' own evaluation (`promtool test rules`)."""

import json

import pytest
from support.monitoring.prometheus import promtool
from support.monitoring.queries import ALERTS, FOLDER

MINUTES = 60
ORDERS = {"namespace": "shop", "name": "orders", "strategy": "Snapshot"}


def series(metric, values, **labels):
    """Return an input series of a job: a value each minute in promtool's notation."""
    given = {**({} if metric.startswith("backfill_operator_") else ORDERS), "pod": "operator-a", **labels}
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in given.items())
    return {"series": f"{metric}{{{shown}}}", "values": values}


def job(metric, values, **labels):
    """Return an input series of a metric of jobs."""
    return series(f"backfill_job_{metric}", values, **labels)


def state(values="1x60", *, phase="Running", step="Copy", reason="Running", **labels):
    """Return the series with the state of a job."""
    return job("info", values, phase=phase, step=step, reason=reason, **labels)


AGE = job("commit_age_seconds", "0+60x60")
BEHIND, LEVEL = job("lag_seconds", "40x60"), job("lag_seconds", "0x60")
FAILURES = job("failed_attempts", "3x240", reason="Transient")
LEADS = series("backfill_operator_leader", "1x60", namespace="backfill-system")

CASES = {
    "BackfillStalled": {
        "a copy without a commit": ([state(), AGE], 8, True),
        "before five minutes": ([state(), AGE], 5, False),
        "a short time over the limit": ([state(), AGE], 6, False),
        "a pause": ([state(), AGE, job("paused", "1x60")], 8, False),
        "a limit that is not a pause": ([state(), AGE, job("paused", "0x60")], 8, True),
        "changes that wait": ([state(step="CatchUp"), AGE, BEHIND], 8, True),
        "a source without changes": ([state(step="CatchUp"), AGE, LEVEL], 8, False),
        "changes of a job without steps": ([state(step=""), AGE, BEHIND], 8, True),
        "a proof of the key": ([state(step="KeyProof"), AGE, BEHIND], 8, False),
        "a receipt": ([state(step="Receipt"), AGE, BEHIND], 8, False),
        "a job that stops": ([state(phase="Suspending"), AGE], 8, False),
        "commits": ([state(), job("commit_age_seconds", "2x60")], 8, False),
    },
    "BackfillLagGrowing": {
        "a lag that grows": ([state(step="CatchUp"), job("lag_seconds", "0+30x60")], 40, True),
        "a lag that falls": ([state(step="CatchUp"), job("lag_seconds", "4000-30x60")], 40, False),
        "a lag that stays": ([state(step="CatchUp"), job("lag_seconds", "4000x60")], 40, False),
        "a small lag": ([state(step="CatchUp"), job("lag_seconds", "0+6x60")], 40, False),
        "a copy": ([state(step="Copy"), job("lag_seconds", "0+60x60")], 40, False),
        "a pause": ([state(step="CatchUp"), job("lag_seconds", "0+60x60"), job("paused", "1x60")], 40, False),
    },
    "BackfillRetentionEnding": {
        "a version": ([job("warnings", "1x60", code="RetentionEnding")], 1, True),
        "a topic": ([job("warnings", "1x60", code="RetentionShort")], 1, True),
        "another warning": ([job("warnings", "1x60", code="ForeignCommits")], 1, False),
    },
    "BackfillDriverRestarts": {
        "three new attempts": ([job("attempt", "1x10 2x10 3x10 4x20"), FAILURES], 55, True),
        "failures of several kinds": (
            [job("attempt", "1x10 2x10 3x10 4x20"), *(job("failed_attempts", f"{n}x60", reason=f"R{n}") for n in (1, 2))], 55, True
        ),
        "a job that is refreshed often": ([job("attempt", "1x10 2x10 3x10 4x20")], 55, False),
        "a job that is refreshed after a failure": (
            [job("attempt", "1x10 2x10 3x10 4x20"), job("failed_attempts", "1x60", reason="Transient")], 55, False
        ),
        "two new attempts": ([job("attempt", "1x10 2x10 3x40"), FAILURES], 55, False),
        "three attempts in three hours": ([job("attempt", "1x60 2x60 3x60 4x60"), FAILURES], 200, False),
        "another leader meanwhile": (
            [
                job("attempt", "1x20 _x40"),
                job("attempt", "_x21 4x30", pod="operator-b"),
                job("failed_attempts", "_x21 3x30", reason="Transient", pod="operator-b"),
            ],
            50, True,
        ),
    },
    "BackfillFailed": {
        "a failed job": ([state(phase="Failed", step="", reason="KeyNotUnique")], 1, True),
        "a retry": ([state(phase="Retrying", step="", reason="BackingOff")], 1, False),
        "the next attempt": ([state("1x5 _x30", phase="Failed", step=""), state("_x6 1x30")], 20, False),
    },
    "BackfillReceiptDiffers": {
        "a difference": ([job("receipt", "1x60", state="Differs")], 1, True),
        "a receipt of a part": ([job("receipt", "1x60", state="Partial")], 1, False),
        "an equal receipt after it": ([job("receipt", "1x5 _x30", state="Differs"), job("receipt", "_x6 1x30", state="Equal")], 20, False),
    },
    "BackfillCommandUnacknowledged": {
        "a command that waits": ([job("command_pending_seconds", "0+60x60")], 1, True),
        "a command of now": ([job("command_pending_seconds", "5x60")], 1, False),
    },
    "BackfillWaiting": {
        "a limit of drivers": ([state(phase="Pending", step="", reason="DriversLimited")], 16, True),
        "a full quota": ([state(phase="Pending", step="", reason="QuotaExceeded")], 16, True),
        "a short time": ([state(phase="Pending", step="", reason="DriversLimited")], 10, False),
        "a suspended job": ([state(phase="Suspended", step="", reason="Suspended")], 16, False),
    },
    "BackfillOperatorWithoutLeader": {
        "no process": ([], 3, True),
        "two processes that wait": ([series("backfill_operator_leader", "0x60", namespace="backfill-system", pod=pod) for pod in "ab"], 3, True),
        "a leader and a standby": ([LEADS, series("backfill_operator_leader", "0x60", namespace="backfill-system", pod="b")], 3, False),
        "a leader of another installation": ([series("backfill_operator_leader", "1x60", namespace="elsewhere")], 3, True),
        "a change of the leader": ([series("backfill_operator_leader", "1 1 0 1x60", namespace="backfill-system")], 3, False),
    },
}  # fmt: skip
"""For each alert the input series, the minute of the check, and whether it fires."""


def case_of(name, alert):
    """Return a test of promtool."""
    given, minute, fires = CASES[alert][name]
    labels = {**ORDERS} if alert != "BackfillOperatorWithoutLeader" else {"namespace": "backfill-system"}
    query = f'max by (alertname, namespace, name, strategy) (ALERTS{{alertstate="firing", alertname="{alert}"}})'
    shown = ", ".join(f'{label}="{value}"' for label, value in {"alertname": alert, **labels}.items())
    expected = [{"labels": f"{{{shown}}}", "value": 1}] if fires else []
    return {
        "name": f"{alert}: {name}", "interval": "1m", "input_series": given,
        "promql_expr_test": [{"expr": query, "eval_time": f"{minute}m", "exp_samples": expected}],
    }  # fmt: skip


def run(folder, tests):
    """Run tests of promtool; return its output, which is empty of failures if all pass."""
    (folder / "alerts.yaml").write_text((FOLDER / "alerts.yaml").read_text())
    file = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(json.dumps(file))
    return promtool("test", "rules", "tests.yaml", folder=folder)


class TestTheRules:
    def test_rules_are_valid(self, tmp_path):
        """Their expressions, and the templates of their annotations, can be parsed."""
        done = promtool("check", "rules", FOLDER / "alerts.yaml", folder=tmp_path)

        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(ALERTS)} rules found" in done.stdout

    def test_each_alert_has_cases(self):
        """At least one in which it fires, and one in which it does not."""
        assert list(CASES) == [rule["alert"] for rule in ALERTS]
        assert all({True, False} == {fires for _, _, fires in cases.values()} for cases in CASES.values())

    @pytest.mark.parametrize("alert", list(CASES))
    def test_alert_fires_only_when_it_should(self, alert, tmp_path):
        """All cases of an alert are one run of promtool."""
        done = run(tmp_path, [case_of(name, alert) for name in CASES[alert]])

        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_wrong_expectation_fails(self, tmp_path):
        """Otherwise the cases above would prove nothing."""
        wrong = case_of("a copy without a commit", "BackfillStalled")
        wrong["promql_expr_test"][0]["exp_samples"] = []

        assert run(tmp_path, [wrong]).returncode != 0

    def test_annotations_name_the_job_and_the_duration(self, tmp_path):
        """The person on call reads only these."""
        [rule] = [rule for rule in ALERTS if rule["alert"] == "BackfillStalled"]
        annotations = {
            "summary": "Backfill shop/orders commits nothing.",
            "description": "Its driver runs and has committed nothing for 8m 0s.",
            "runbook_url": rule["annotations"]["runbook_url"],
        }
        expected = {"exp_labels": {**ORDERS, "severity": "critical"}, "exp_annotations": annotations}
        case = {
            "interval": "1m", "input_series": [state(), AGE],
            "alert_rule_test": [{"alertname": "BackfillStalled", "eval_time": "8m", "exp_alerts": [expected]}],
        }  # fmt: skip
        done = run(tmp_path, [case])

        assert done.returncode == 0, done.stdout + done.stderr
