"""Documented values of the chart, fields of a spec or status, and helm commands exist."""

import json
import re
import shlex

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import CHART, RELEASE, SYSTEM
from support.repository import ROOT

PAGES = sorted([
    ROOT / "README.md", ROOT / "SECURITY.md", CHART / "README.md", CHART / "templates" / "NOTES.txt", *(ROOT / "docs").glob("*.md"),
    *(ROOT / "examples").glob("**/*.yaml"), ROOT / "docs" / "statuses.yaml",
])  # fmt: skip
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
KIND = yaml.load((ROOT / "crds" / "backfills.yaml").read_text(), yaml.CSafeLoader)["spec"]["versions"][0]["schema"][
    "openAPIV3Schema"
]
VALUE = re.compile(
    r"(?<![\w.$/-])(?!rbac\.authorization\.k8s\.io)(?:{})(?:\.\w+)+".format(
        "|".join(name for name in SCHEMA["properties"] if name != "global")
    )
)
FIELD = re.compile(r"(?<![\w$/-])(?:spec|status)(?:\.\w+(?![\w(]))+")
COMMAND = re.compile(r"helm (?:install|upgrade|template) [^\n`|#]*")
SET = re.compile(r"--set ('[^']*'|\S+)")

COMMANDS = [
    (path.name, command) for path in PAGES for command in COMMAND.findall(path.read_text()) if "--set" in command
]
ELSEWHERE = {
    "crd": {"schema", "fields", "explain"}, "operator": {"md"}, "queues": {"md"}, "images": {"svg"}, "status": {"storedVersions"},
}  # fmt: skip
"""Second parts of paths that only look like a value or a field of this project: modules, files, a field of every CRD."""


def named(pattern, text):
    """Return the paths in a page, each as a list of its parts."""
    paths = [match.split(".") for match in pattern.findall(text)]
    return [parts for parts in paths if parts[1] not in ELSEWHERE.get(parts[0], ())]


def has(schema, parts):
    """Return whether a path is in a schema; content of a part without a schema is accepted."""
    for part in parts:
        if "$ref" in schema:
            schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[-1]]
        schema = schema.get("items", schema)
        if "properties" not in schema:
            return True
        if part not in schema["properties"]:
            return False
        schema = schema["properties"][part]
    return True


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
class TestAPage:
    def test_page_names_only_existing_values(self, path):
        """A misspelt value is refused, and a renamed one would confuse readers."""
        assert [".".join(name) for name in named(VALUE, path.read_text()) if not has(SCHEMA, name)] == []

    def test_page_names_only_existing_fields(self, path):
        """The API server silently drops an unknown field."""
        assert [".".join(name) for name in named(FIELD, path.read_text()) if not has(KIND, name)] == []


class TestAnExample:
    @pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("**/*.yaml")), ids=lambda path: path.name)
    def test_kubectl_apply_accepts_the_example(self, path):
        """`kubectl apply -f` of a folder stops at the first file without objects (fault K15)."""
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]

        assert documents
        assert [
            document
            for document in documents
            if not (isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys())
        ] == []


class TestACommand:
    def test_pages_contain_commands(self):
        """Otherwise the next test checks nothing."""
        assert {"kubernetes.md", "README.md", "versions.md", "object-stores.md"} <= {page for page, _ in COMMANDS}

    @pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(COMMANDS)])
    def test_helm_accepts_the_values_of_a_command(self, page, command):
        """The documented command runs unchanged over an installation with one tenant."""
        flags = [word for given in SET.findall(command) for word in ("--set", *shlex.split(given))]
        done = charts.run("template", RELEASE, CHART, "--namespace", SYSTEM, "--set", "watch.namespaces={shop}", *flags)

        assert done.returncode == 0, f"{page}: {done.stderr}"
