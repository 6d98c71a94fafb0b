"""Run coroutines in separate loops, on the fake API server and on any real one, as in tests/control_plane."""

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[2] / "control_plane" / "conftest.py"
_spec = importlib.util.spec_from_file_location("control_plane_conftest", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_pyfunc_call = _module.pytest_pyfunc_call
real_cluster = _module.real_cluster
real = _module.real
rigs = _module.rigs
