"""The objects of the attempt that closes a deleted job."""

from dataclasses import replace

import pytest
import yaml
from support.operators.observations import spec

from backfill_api.load import load_backfill
from backfill_api.names import UID_LABEL
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import backfill_document, config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.spark_conf import properties
from backfill_operator.manifests.tried_executor import tried_executor


def launch(*, detached: bool = False) -> Launch:
    """Return the last attempt of a job with executors."""
    given = spec(deletionPolicy="Release", executor={"instances": 4})
    return Launch(
        "shop", "orders", "0b5a-uid", 2, "Run", given, Installation("backfill:1"), procedure="Close", detached=detached
    )


class TestTheLastAttempt:
    """It reads two logs, so one small driver suffices."""

    def test_knows_the_policy_and_has_no_executors(self) -> None:
        """The driver decides on its parts from the spec in its ConfigMap."""
        document = backfill_document(launch())

        assert load_backfill(yaml.safe_dump(document)).spec.deletion_policy == "Release"
        assert properties(launch())["spark.master"].startswith("local[")
        assert tried_executor(launch()) is None

    def test_shares_only_its_lack_of_executors_with_a_copy_back(self) -> None:
        """The driver copies the files itself, for weeks; a comparison of an undo uses executors."""
        copies, undoes = (replace(launch(), procedure=kind) for kind in ("FollowBack", "UndoSwitch"))

        assert properties(copies)["spark.master"].startswith("local[")
        assert not properties(undoes)["spark.master"].startswith("local[")

    def test_alone_knows_the_policy(self) -> None:
        """A driver of an earlier version refuses a value that it does not know."""
        assert "deletionPolicy" not in backfill_document(replace(launch(), procedure=None))["spec"]

    @pytest.mark.parametrize("detached", [True, False])
    def test_has_an_owner_only_if_no_garbage_collector_ends_it(self, detached: bool) -> None:
        """The operator finds it by its UID label, and deletes its objects."""
        for made in (driver_pod(launch(detached=detached)), config_map(launch(detached=detached))):
            assert ("ownerReferences" in made["metadata"]) is not detached
            assert made["metadata"]["labels"][UID_LABEL] == "0b5a-uid"
