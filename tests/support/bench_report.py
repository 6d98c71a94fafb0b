"""Report of every benchmark: figures with their bars, as JSON and as lines."""

import json
import os
import platform
from pathlib import Path


def write_report(out, figures, bars, **more):
    """Write the figures of a run and print them; return the document.

    Args:
        out: Path of the JSON file.
        figures: Value by name.
        bars: `(unit, bar, "higher" or "lower")` by name.
        more: Additional fields of the document.
    """
    document = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "figures": {
            name: {"value": value, "unit": bars[name][0], "bar": bars[name][1], "better": bars[name][2]}
            for name, value in figures.items()
        },
        **more,
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(document, indent=2) + "\n")
    for name, figure in document["figures"].items():
        met = figure["value"] >= figure["bar"] if figure["better"] == "higher" else figure["value"] <= figure["bar"]
        print(f"{name:22} {figure['value']:>10} {figure['unit']:8} bar {figure['bar']:<6} {'met' if met else 'MISSED'}")
    return document
