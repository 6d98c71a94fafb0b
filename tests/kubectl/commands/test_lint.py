"""`lint` finds what a cluster would refuse, without a cluster."""

import json

import pytest
from click.testing import CliRunner
from support.repository import ROOT

from backfill_kubectl.__main__ import cli
from backfill_kubectl.decisions.manifest_findings import lint

HEAD = "apiVersion: backfill.dev/v1alpha1\nkind: Backfill\nmetadata: {name: orders}\n"
SPEC = """spec:
  source: {type: Delta, delta: {path: s3a://a/b, key: [id]}}
  target: {type: Delta, delta: {path: s3a://a/c}}
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
EXAMPLES = [*sorted((ROOT / "examples").glob("*cluster*.yaml")), ROOT / "examples" / "bucket-to-bucket.yaml"]


def run(*words, text=None):
    """Run the command."""
    return CliRunner().invoke(cli, ["lint", *map(str, words)], input=text, catch_exceptions=False)


class TestFindings:
    """Each finding names field, value and remedy."""

    @pytest.mark.parametrize(
        ("spec", "finding"),
        [
            (SPEC.replace("target:", "taget:"), "spec.taget"),
            (SPEC.replace(", key: [id]", ""), "key"),
            (SPEC + "  driver: {template: {spec: {hostNetwork: true}}}\n", "hostNetwork"),
            (SPEC + "  spark: {conf: {spark.driver.extraJavaOptions: -Dx=y}}\n", "spark.driver.extraJavaOptions"),
            (SPEC.replace("s3a://a/c", "lake/orders"), "lake/orders"),
        ],
        ids=["unknown field", "rule of the CRD", "admission policy", "Spark setting", "relative path"],
    )
    def test_request_that_a_cluster_refuses_is_found(self, tmp_path, spec, finding):
        """By the schema, the CRD's rules, the policy, or the operator."""
        file = tmp_path / "orders.yaml"
        file.write_text(HEAD + spec)

        result = run(file)

        assert result.exit_code == 20
        assert finding in result.stdout
        assert f"{file} orders: " in result.stdout
        assert "error: InvalidSpec: " in result.stderr

    @pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
    def test_example_for_a_bucket_has_no_finding_of_its_schema(self, file):
        """Examples with a folder of the node name the chart value that allows it."""
        assert [each for each in lint(file.read_text()).findings if not each.path.startswith("spec.")] == []

    def test_all_documents_of_a_file_are_checked(self, tmp_path):
        """Other kinds are counted."""
        good, bad = HEAD + SPEC, (HEAD + SPEC).replace("orders", "bad").replace("source:", "sorce:")

        result = lint(f"---\n{OTHER}\n---\n{good}\n---\n{bad}")

        assert (result.backfills, result.others) == (2, 1)
        assert {each.backfill for each in result.findings} == {"bad"}

    @pytest.mark.parametrize("text", ["", "a: [", "- 1", OTHER, "kind: Backfill\n\x00", "x" * 5_000_000])
    def test_file_without_a_backfill_has_a_finding(self, text):
        """A file that checks nothing must not pass."""
        assert lint(text).findings

    def test_standard_input_and_json_are_for_programs(self):
        """A pipe of a template is checked before it is applied."""
        result = run("-", "-o", "json", text=HEAD + SPEC)

        assert json.loads(result.stdout) == [{"file": "-", "backfills": 1, "others": 0, "findings": []}]
        assert result.exit_code == 0
