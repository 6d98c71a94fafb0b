"""Write the generated files, or with `--check` report the stale ones."""

import sys
from pathlib import Path

import chart_page
import cli_page
import dashboards
import driver_page
import errors_page
import gitops_page
import lifecycle_page
import reach_page
import switch_page
import tenant_chart

from backfill_api.crd import editor_schema, fields, schema

CHART_CRD = Path(__file__).parent.parent / "charts" / "backfill-operator" / "files" / "backfills.yaml"
"""The chart's copy of the CRD, because a chart reads only files in its own folder."""

EDITOR_SCHEMA = Path(__file__).parent.parent / "crds" / editor_schema.SCHEMA_NAME
"""The schema that the examples name for editors."""

GENERATED = (
    (schema.CRD_FILE, schema.render),
    (CHART_CRD, schema.render),
    (EDITOR_SCHEMA, editor_schema.render),
    (fields.FIELDS_FILE, fields.render),
    (chart_page.README_FILE, chart_page.render),
    (cli_page.CLI_FILE, cli_page.render),
    (dashboards.FLEET_FILE, dashboards.render_fleet),
    (dashboards.JOB_FILE, dashboards.render_job),
    (errors_page.ERRORS_FILE, errors_page.render),
    (gitops_page.GITOPS_FILE, gitops_page.render),
    (gitops_page.STATUSES_FILE, gitops_page.render_statuses),
    (lifecycle_page.LIFECYCLE_FILE, lifecycle_page.render),
    (driver_page.DRIVER_FILE, driver_page.render),
    (reach_page.PAGE_FILE, reach_page.render),
    *tenant_chart.generated(),
    (switch_page.SWITCH_FILE, switch_page.render),
)


def main(*, check: bool) -> int:
    """Write stale files, or with `check` only report them; return 1 if a reported file is stale."""
    stale = [
        (path, text)
        for path, render in GENERATED
        if (text := render()) != (path.read_text() if path.exists() else None)
    ]
    for path, text in stale:
        if check:
            print(f"{path.parent.name}/{path.name} is stale: run `make docs`", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"wrote {path.parent.name}/{path.name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
