"""A text that others wrote must not hold up its validation: its size is bounded before anything is built of it."""

from __future__ import annotations

import pytest
import yaml
from support.tables.jobs import document

from backfill_api.load import LOADER, SpecError, load_backfill

VALID = yaml.safe_dump(document("/s", "/t"))


class TestALargeText:
    """A megabyte of YAML is refused in a moment: who validates what others wrote must not be held up by it."""

    def test_the_fast_loader_is_used_where_it_is_there(self) -> None:
        """Ten times as fast; both say the same positions."""
        assert yaml.__with_libyaml__ == (LOADER is not yaml.SafeLoader)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("\n".join(f"k{number}: 1" for number in range(20_000)), "has 20,000 keys; keep it below 10,000"),
            ("[" * 300_000 + "]" * 300_000, "nested too deeply"),
            ("[" + "1," * 400_000 + "1]", "has more than 100,000 values"),
            ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "\n".join(
                f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)
            ), "too large or refers to itself"),
        ],
        ids=["keys", "depth", "values", "laughs"],
    )  # fmt: skip
    def test_is_refused_before_it_is_built(self, text: str, words: str) -> None:
        """By what it holds, not by what it would take."""
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert words in str(refused.value)

    def test_of_many_errors_the_first_are_explained(self) -> None:
        """Each is compared with every name there is, and a list of thousands is not read."""
        text = VALID + "".join(f"  unknown{number}: 1\n" for number in range(5_000))
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert len(refused.value.errors) == 51
        assert str(refused.value.errors[-1]) == "(document): has 4,950 further errors; correct these first"
