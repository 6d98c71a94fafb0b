"""`resume --all-jobs` has the same form for programs, with a pause and without."""

import json
from http.server import BaseHTTPRequestHandler

import pytest
import yaml
from click.testing import CliRunner
from support.plugin.small_server import Answers, serving_api, url_of

from backfill_kubectl.__main__ import cli


class Server(Answers, BaseHTTPRequestHandler):
    """Has the ConfigMap of the switch, which pauses no job."""

    def do_GET(self):
        """Answer a read."""
        self.answer(200, {"metadata": {"name": "backfill-all-jobs"}, "data": {}})


@pytest.fixture
def resume(tmp_path):
    """Run `resume --all-jobs` against an operator that pauses no job."""
    with serving_api(Server) as server:
        file = tmp_path / "config"
        context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}
        file.write_text(
            json.dumps(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [context],
                    "clusters": [{"name": "c", "cluster": {"server": url_of(server)}}], "users": [{"name": "u", "user": {}}],
                }
            )
        )  # fmt: skip
        yield lambda *words: CliRunner().invoke(cli, ["resume", "--all-jobs", "--kubeconfig", str(file), *words])


class TestWithoutAPause:
    """A script that lifts a pause may run twice."""

    @pytest.mark.parametrize(("form", "parsed"), [("json", json.loads), ("yaml", yaml.safe_load)])
    def test_programs_get_their_format(self, resume, form, parsed):
        """It was a sentence, which no JSON parser accepts."""
        done = resume("-o", form)

        assert done.exit_code == 0
        assert parsed(done.stdout) == {"enabled": False, "jobs": [], "withoutDriver": [], "seconds": 0.0, "undo": ""}

    def test_the_name_is_printed_for_pipes(self, resume):
        """As after a change."""
        assert resume("-o", "name").stdout == "configmap/backfill-all-jobs\n"

    def test_users_read_that_nothing_was_changed(self, resume):
        """Without a format."""
        assert resume().stdout == "no pause of all jobs is in force; nothing was changed\n"
