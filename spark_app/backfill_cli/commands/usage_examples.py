"""Two examples for the `--help` of each command."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "": (
        "backfill init --source lake/orders --target lake/copy",
        "backfill plan -f copy.yaml && backfill run -f copy.yaml",
    ),
    "init": (
        "backfill init --source lake/orders --target lake/orders_copy -f orders.yaml",
        "backfill init --source kafka://broker:9092/events --target s3a://bucket/events",
    ),
    "validate": ("backfill validate -f orders.yaml", "helm template CHART | backfill validate -f -"),
    "plan": ("backfill plan -f orders.yaml --check-unique", "backfill plan -f orders.yaml --explain"),
    "run": ("backfill run -f orders.yaml --refresh", "backfill run -f orders.yaml --set spec.after=Follow -o json"),
    "status": ("backfill status --watch", "backfill status -f orders.yaml -o json"),
    "jobs": ("backfill jobs", "backfill jobs -o json"),
    "history": ("backfill history --job default/orders", "backfill history -o json"),
    "ui": ("backfill ui", "backfill ui --port 8080"),
    "pause": ("backfill pause", "backfill pause --job default/orders --with-changes"),
    "resume": ("backfill resume", "backfill resume -f orders.yaml"),
    "throttle": ("backfill throttle 200k --for 30m", "backfill throttle none"),
    "rescale": ("backfill rescale 8", "backfill rescale --split-seconds 10 -f orders.yaml"),
    "verify": ("backfill verify -f orders.yaml", "backfill verify -f orders.yaml --rows --explain"),
    "stop": ("backfill stop", "backfill stop --job default/orders --force"),
    "fence": (
        "backfill fence -f orders.yaml --reason 'switch to /lake/orders_v2, change 4711'",
        "backfill fence -f orders.yaml -o json",
    ),
    "unfence": ("backfill unfence -f orders.yaml", "backfill unfence -f orders.yaml --force"),
    "repair": ("backfill repair -f orders.yaml --dry-run", "backfill repair -f orders.yaml -o json"),
    "switch": ("backfill switch -f orders.yaml --dry-run", "backfill switch -f orders.yaml --max-lag 10s --timeout 2m"),
    "drop": ("backfill drop -f orders.yaml", "backfill drop -f orders.yaml --yes"),
    "release": ("backfill release -f orders.yaml", "backfill release -f orders.yaml -o json"),
    "schema": ("backfill schema > backfill.schema.json", "backfill schema | python -m json.tool"),
    "completion": (
        "backfill completion bash > ~/.local/share/bash-completion/completions/backfill",
        "backfill completion fish > ~/.config/fish/completions/backfill.fish",
    ),
    "demo": ("backfill demo", "backfill demo --rows 500000 --strategy Arrangement"),
}
"""Examples by command; the group itself has the empty name."""


def epilog_of(command: str) -> str:
    """Return the end of the help of a command; click keeps its lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
