"""A large text must not block its validation: its size is checked before it is parsed into values."""

from __future__ import annotations

import pytest
import yaml
from support.tables.jobs import document

from backfill_api.load import LOADER, SpecError, load_backfill

VALID = yaml.safe_dump(document("/s", "/t"))


class TestALargeText:
    """A megabyte of YAML is refused at once: one user's text must not block the operator for others."""

    def test_the_fast_loader_is_used_where_it_is_there(self) -> None:
        """libyaml is ten times as fast, and errors must keep their positions."""
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
        """It is refused by its size, before it costs time."""
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert words in str(refused.value)

    def test_of_many_errors_the_first_are_explained(self) -> None:
        """Each unknown name is compared with every field, and users do not read thousands of errors."""
        text = VALID + "".join(f"  unknown{number}: 1\n" for number in range(5_000))
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert len(refused.value.errors) == 51
        assert str(refused.value.errors[-1]) == "(document): has 4,950 further errors; correct these first"
