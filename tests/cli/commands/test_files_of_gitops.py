"""One file may contain a Backfill with related objects; an error names the objects in the file (faults U19 to U29)."""

import json

import pytest
import yaml
from support.console.command_line import backfill
from support.tables.jobs import write_yaml

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
FLUX = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: tables}\nspec: {wait: true}\n"


@pytest.fixture
def orders(tmp_path):
    """The YAML of a valid Backfill."""
    return write_yaml(tmp_path / "orders.yaml", "/s", "/t", name="orders").read_text()


def validate(text):
    """Return the exit code of `backfill validate`, and its output."""
    done = backfill("validate", "-f", "-", text=text)
    return done.exit_code, done.output


@pytest.mark.parametrize("form", ["last", "first", "list", "kubectl get -o json"])
def test_a_file_with_one_backfill_is_read(orders, form):
    """Other tools read the other objects."""
    objects = [yaml.safe_load(NAMESPACE), yaml.safe_load(orders)]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = {
        "last": f"{NAMESPACE}---\n{orders}",
        "first": f"{orders}---\n{FLUX}---\n{NAMESPACE}",
        "list": yaml.safe_dump(listed),
        "kubectl get -o json": json.dumps(listed),
    }[form]

    code, printed = validate(text)

    assert (code, printed.splitlines()[0]) == (0, "default/orders: valid (Snapshot, Upsert)")


def test_several_backfills_are_refused_by_name(orders):
    """A command is about one job."""
    code, printed = validate(f"{orders}---\n{NAMESPACE}---\n{orders.replace('name: orders', 'name: items')}")

    assert code == 20
    assert "(document): must hold one Backfill, found 2: orders, items; give each Backfill a separate file" in printed


@pytest.mark.parametrize(
    ("text", "kinds"), [(FLUX, "Kustomization"), (f"{FLUX}---\n{NAMESPACE}", "Kustomization, Namespace")]
)
def test_other_kinds_are_named(text, kinds):
    """A hint to write `kind: Backfill` would not help: nothing else in the file would be valid."""
    code, printed = validate(text)

    assert code == 20
    assert f"(document): must hold one Backfill, found {kinds}; give the file of the Backfill" in printed


def test_a_kind_with_a_typo_is_still_a_backfill(orders):
    """The API version belongs to this project."""
    assert "write kind: Backfill" in validate(orders.replace("kind: Backfill", "kind: Backfil"))[1]


@pytest.mark.parametrize("form", ["value", "block", "quoted"])
def test_a_template_is_reported_as_a_template(orders, form):
    """The hint to check indentation and quotes does not help with a Helm template."""
    text = {
        "value": orders.replace("name: orders", "name: {{ .Values.name }}"),
        "block": "{{- if .Values.enabled }}\n" + orders + "{{- end }}\n",
        "quoted": orders.replace("name: orders", 'name: "{{ .Values.name }}"'),
    }[form]

    code, printed = validate(text)

    assert code == 20
    assert "render the template first, as in `helm template CHART | backfill validate -f -`" in printed
