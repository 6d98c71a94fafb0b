"""As in tests/control_plane: coroutines run in loops of their own, on the fake API server and on whatever real one there is."""

import importlib.util
from pathlib import Path

_place = Path(__file__).parents[2] / "control_plane" / "conftest.py"
_spec = importlib.util.spec_from_file_location("control_plane_conftest", _place)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_pyfunc_call = _module.pytest_pyfunc_call
real_cluster = _module.real_cluster
real = _module.real
rigs = _module.rigs
