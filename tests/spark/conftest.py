"""The hands are tested on tables of a few rows, of which Spark would interpret ten in the time it takes to compile for one."""

import pytest


@pytest.fixture(scope="session")
def session_conf():
    """Nothing is compiled: a third less time. The jobs of `tests/jobs`, the crash suite and the demo run as users do."""
    return {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
