"""The tests' own reader of the CRD's rules agrees with a server: on the rows that tests/control_plane/chart gives to a real one."""

import pytest
from support.crd.cel import broken, holds
from support.crd.crd_rows import ACCEPTED, REFUSED
from support.crd.crd_specs import SCHEMA, filled, rules

BY_RULE = {(path, message) for path, rule, message in rules() if "oldSelf" not in rule}


class TestTheRules:
    @pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED.keys())
    def test_a_spec_that_a_server_accepts_breaks_none(self, given):
        """Such a spec is where the drawn ones begin."""
        assert list(broken(SCHEMA, filled(SCHEMA, given))) == []

    def test_a_spec_that_a_server_refuses_breaks_the_rule_that_it_names(self):
        """Rows about types, bounds and required fields break no rule."""
        rows = [row for row in REFUSED.values() if (row.path, row.words) in BY_RULE]

        unseen = [row for row in rows if (row.path, row.words) not in broken(SCHEMA, filled(SCHEMA, row.given))]

        assert unseen == []
        assert {(row.path, row.words) for row in rows} == BY_RULE

    @pytest.mark.parametrize(
        ("rule", "value", "result"),
        [
            ("!has(self.a) || self.a == 1", {}, True),
            ("has(self.a) ? self.a in [1, 2] : self.b", {"b": False}, False),
            ("(self.a == 1) == has(self.b)", {"a": 1}, False),
            ("self.a.all(k, k.matches('^x') && !(k in ['xy']))", {"a": {"xa": 1, "xy": 2}}, False),
        ],
    )
    def test_operators_have_the_precedence_of_cel(self, rule, value, result):
        """`!` binds more tightly than `==`, and that more tightly than `&&`."""
        assert holds(rule, value) is result

    def test_an_unknown_feature_is_an_error(self):
        """A rule that is read wrongly would accept anything."""
        with pytest.raises(ValueError, match="unknown"):
            holds("self.a + 1 == 2", {"a": 1})
