"""Switch-over in a spec: a flip has exactly the fields of its type."""

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError


def load(**flip):
    """Return a job with a flip."""
    return job("/s", "/t", switch={"flip": flip})


class TestAFlip:
    @pytest.mark.parametrize(
        ("flip", "path", "message"),
        [
            ({"type": "HiveTable"}, "name", "is required, because type is HiveTable; add name: sales.orders"),
            ({"type": "Command"}, "command", "is required, because type is Command"),
            ({"type": "Command", "command": ["x"], "name": "a"}, "name", "remove it, or set type: HiveTable or View"),
            ({"name": "a"}, "name", "must be left out, because type is None"),
            ({"type": "View", "name": "a", "command": ["x"]}, "command", "must be left out, because type is View"),
            ({"type": "Command", "command": [""]}, "command[0]", "must not be empty"),
            ({"type": "Symlink"}, "type", "HiveTable"),
        ],
    )
    def test_with_fields_of_another_type_is_refused(self, flip, path, message):
        """A field that nothing reads would look as if it did something."""
        with pytest.raises(SpecError) as refused:
            load(**flip)

        [error] = refused.value.errors
        assert error.path == f"spec.switch.flip.{path}"
        assert message in str(error)

    def test_is_none_by_default_and_belongs_to_no_identity(self):
        """A job that runs may get its flip later, and keeps its state."""
        plain, named = job("/s", "/t"), load(type="HiveTable", name="sales.orders")

        assert plain.spec.switch.flip.type == "None"
        assert plain.spec.switch.keep_source == "Fenced"
        assert plain.spec_hash == named.spec_hash


class TestWhen:
    """The automatic switch-over is one of a job that follows its source."""

    def test_automatic_one_of_a_job_that_ends_is_refused(self):
        """It would never begin."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", switch={"when": "WhenVerified"})

        [error] = refused.value.errors
        assert error.path == "spec.switch.when"
        assert "set after: Follow, or switch.when: Manual" in str(error)
        assert job("/s", "/t", after="Follow", switch={"when": "WhenVerified"}).spec.switch.when == "WhenVerified"
