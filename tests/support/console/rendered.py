"""Text that rich renders for a terminal."""

import io

from rich.console import Console


def text(shown, width=100):
    """Return the text on a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
    console.print(shown)
    return console.export_text()
