"""The time that a limit in seconds must not count: limits hold for an idle machine, and tests share the cores with other lanes."""

import re
from pathlib import Path


def waited_s() -> float:
    """Return the seconds for which a task of this machine waited for a core since its boot; 0 if the kernel does not report them."""
    try:
        pressure = re.search(r"^some .*total=(\d+)", Path("/proc/pressure/cpu").read_text(), re.MULTILINE)
    except OSError:  # a kernel without this file
        pressure = None
    return 0.0 if pressure is None else int(pressure[1]) / 1e6
