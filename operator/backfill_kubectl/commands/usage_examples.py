"""Two examples for the `--help` of each command."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "": ("kubectl backfill list -A", "kubectl backfill get orders -w"),
    "list": ("kubectl backfill list -A", "kubectl backfill list -n shop -l team=orders -o wide"),
    "get": ("kubectl backfill get orders -w", "kubectl backfill get shop/orders -o yaml"),
    "pause": (
        "kubectl backfill pause orders --note 'incident 4711'",
        "kubectl backfill pause --all-jobs --reason 'incident 4711'",
    ),
    "resume": ("kubectl backfill resume orders", "kubectl backfill resume --all-jobs"),
    "throttle": ("kubectl backfill throttle orders 200k --for 30m", "kubectl backfill throttle orders none"),
    "rescale": ("kubectl backfill rescale orders 8", "kubectl backfill rescale orders --executors 4 --how override"),
    "suspend": ("kubectl backfill suspend orders", "kubectl backfill suspend orders --timeout 0"),
    "unsuspend": ("kubectl backfill unsuspend orders", "kubectl backfill unsuspend orders --how override"),
    "approve": ("kubectl backfill approve orders", "kubectl backfill approve orders --note 'read by anna'"),
    "retry": ("kubectl backfill retry orders", "kubectl backfill retry orders --timeout 600"),
    "refresh": ("kubectl backfill refresh orders", "kubectl backfill refresh orders --timeout 0"),
    "switch": ("kubectl backfill switch orders", "kubectl backfill switch orders --undo"),
    "repair": ("kubectl backfill repair orders", "kubectl backfill repair orders --timeout 0"),
    "verify": ("kubectl backfill verify orders", "kubectl backfill verify orders -o json"),
    "ui": ("kubectl backfill ui -n shop", "kubectl backfill ui -A --port 8080"),
    "plan": ("kubectl backfill plan orders", "kubectl backfill plan orders -o json"),
    "receipt": ("kubectl backfill receipt orders", "kubectl backfill receipt orders -o yaml"),
    "grid": ("kubectl backfill grid orders", "kubectl backfill grid orders -o json"),
    "history": ("kubectl backfill history orders", "kubectl backfill history orders -o json"),
    "logs": ("kubectl backfill logs orders -f", "kubectl backfill logs orders --attempt 2 --tail 100"),
    "events": ("kubectl backfill events orders", "kubectl backfill events orders -o json"),
    "lint": ("kubectl backfill lint orders.yaml", "kubectl backfill lint jobs/*.yaml"),
    "doctor": ("kubectl backfill doctor -A", "kubectl backfill doctor --operator-namespace ops -o json"),
    "report": ("kubectl backfill report orders", "kubectl backfill report orders --file ticket-4711.zip"),
    "version": ("kubectl backfill version", "kubectl backfill version --client"),
    "completion": (
        "kubectl-backfill completion bash > ~/.local/share/bash-completion/completions/kubectl-backfill",
        "kubectl-backfill completion fish > ~/.config/fish/completions/kubectl-backfill.fish",
    ),
}  # fmt: skip
"""Examples by command; the group itself has the empty name."""


def epilog_of(command: str) -> str:
    """Return the end of the help of a command; click keeps its lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
