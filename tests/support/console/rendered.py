"""What rich renders for a terminal, as text."""

import io

from rich.console import Console


def text(shown, width=100):
    """Return what a terminal of a width would show."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
    console.print(shown)
    return console.export_text()
