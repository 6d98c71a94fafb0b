"""Says why a regular expression may take more than linear time; an empty answer means that it cannot.

Python's engine tries each way in which an expression can match. So its time is linear if the number of ways is bounded, whatever
the text. The expression becomes its position automaton, and the automaton is searched for the two shapes of Weber and Seidl
("On the degree of ambiguity of finite automata"): a state with two loops over one text (exponential time), and two states
with loops over one text that also leads from the first to the second (at least quadratic time).

A search may begin at each character. It is checked as if any text were in front of the expression.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import product
from re import _constants as ops
from re import _parser as parser

ALPHABET = (*range(256), 0x0130, 0x2028, 0x1F9E8)
"""Characters that stand for all others; no expression of ours tells apart two that are missing here."""

COPIES_MAX = 64
"""A repetition with a larger bound is checked as one without a bound."""

INNER_COPIES_MAX = 8
"""The same for a repetition inside another one: their bounds multiply."""

STARTS = {ops.AT_BEGINNING, ops.AT_BEGINNING_STRING}
WHOLE = "fullmatch"
ANCHORED = ("match", WHOLE)
START = -1
"""The place before the first character, as a character: no repetition can match it."""

NEVER = frozenset()
"""What follows where a match can still fail, as before `$`."""


@dataclass(frozen=True)
class Part:
    """Positions with which a part of an expression can begin and end, each with the number of ways."""

    first: Counter
    last: Counter
    empty: int
    """Ways to match nothing."""


NOTHING = Part(Counter(), Counter(), 1)


@dataclass
class Automaton:
    """Positions of characters, and which of them can follow each other, in how many ways."""

    flags: int
    sets: list = field(default_factory=list)
    follow: dict = field(default_factory=lambda: defaultdict(Counter))

    def position(self, characters):
        """Return the part of one character."""
        self.sets.append(frozenset(characters))
        return Part(Counter([len(self.sets) - 1]), Counter([len(self.sets) - 1]), 0)

    def follows(self, last, first):
        """Note that positions can follow each other."""
        for position, ways in last.items():
            for after, more in first.items():
                self.follow[position][after] += ways * more

    def then(self, one, other):
        """Return the part of one after the other."""
        self.follows(one.last, other.first)
        return Part(
            one.first + _times(other.first, one.empty),
            other.last + _times(one.last, other.empty),
            one.empty * other.empty,
        )

    def repeated(self, items, least, most, inner):
        """Return the part of a repetition."""
        made = NOTHING
        for _ in range(min(least, COPIES_MAX)):
            made = self.then(made, self.sequence(items, inner=True))
        if most is ops.MAXREPEAT or most > (INNER_COPIES_MAX if inner else COPIES_MAX):
            loop = self.sequence(items, inner=True)
            self.follows(loop.last, loop.first)
            return self.then(made, Part(loop.first, loop.last, 1))
        # Nested, as x(x(x)?)?: the second of x?x?x? would match one character in three ways.
        rest = NOTHING
        for _ in range(most - min(least, COPIES_MAX)):
            copy = self.then(self.sequence(items, inner=True), rest)
            rest = Part(copy.first, copy.last, 1)
        return self.then(made, rest)

    def sequence(self, items, *, inner=False, at_start=False):
        """Return the part of items after each other."""
        made = NOTHING
        for number, (op, argument) in enumerate(items):
            made = self.then(made, self.item(op, argument, inner=inner, at_start=at_start and number == 0))
        return made

    def item(self, op, argument, *, inner, at_start):
        """Return the part of one item."""
        if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            return self.position(characters(op, argument, self.flags))
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            least, most, items = argument
            return self.repeated(items, least, most, inner)
        if op is ops.SUBPATTERN:
            return self.sequence(argument[3], inner=inner)
        if op is ops.ATOMIC_GROUP:
            return self.sequence(argument, inner=inner)
        if op is ops.BRANCH:
            parts = [self.sequence(items, inner=inner) for items in argument[1]]
            first, last = (sum((getattr(part, side) for part in parts), Counter()) for side in ("first", "last"))
            return Part(first, last, sum(part.empty for part in parts))
        if op is ops.AT:
            if argument in STARTS:
                return NOTHING if self.flags & re.MULTILINE else self.position({START})
            return self.may_fail()
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            return self.assertion(op, *argument, at_start=at_start)
        raise ValueError(f"has {op}, whose cost is not known")

    def assertion(self, op, direction, items, *, at_start):
        """Return the part of a look ahead or behind: one character where that is what it is, else nothing."""
        looks_behind = direction < 0
        if op is ops.ASSERT and (at_start or not looks_behind):
            return self.sequence(items)
        if op is ops.ASSERT_NOT and at_start and looks_behind and len(items) == 1:
            return self.position(set(ALPHABET) - characters(*items[0], self.flags))
        return self.may_fail()

    def may_fail(self):
        """Return the part of a check that matches nothing, and may fail."""
        check = self.position(NEVER)
        return Part(check.first, check.last, 1)

    def checked(self, position):
        """Can a match still fail where it ends with this position?"""
        return any(not self.sets[after] for after in self.follow[position])


def _times(positions, ways):
    return Counter({one: ways * more for one, more in positions.items() if ways})


def characters(op, argument, flags):
    """Return the characters of the alphabet that an item matches."""
    # The library itself decides: it knows categories, and what ignoring case means.
    matched = {chr(one) for one in ALPHABET if _matches(op, argument, flags, one)}
    if flags & re.IGNORECASE:
        matched |= {one.upper() for one in matched if len(one.upper()) == 1} | {
            one.lower() for one in matched if len(one.lower()) == 1
        }
    return {ord(one) for one in matched} & set(ALPHABET)


def _matches(op, argument, flags, one):
    if op is ops.LITERAL:
        return one == argument
    if op is ops.NOT_LITERAL:
        return one != argument
    if op is ops.ANY:
        return bool(flags & re.DOTALL) or one != ord("\n")
    negated = argument[0][0] is ops.NEGATE
    return negated != any(_in(inner, value, flags, one) for inner, value in argument[negated:])


def _in(op, value, flags, one):
    if op is ops.LITERAL:
        return one == value
    if op is ops.RANGE:
        return value[0] <= one <= value[1]
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[value.name.removeprefix("CATEGORY_").removeprefix("NOT_")]
    found = re.match("\\" + letter, chr(one), flags & re.ASCII) is not None
    return found != ("NOT_" in value.name)


def cost_of(pattern, how="search", flags=0):
    """Return why an expression may take more than linear time, or an empty string.

    Args:
        pattern: Text or bytes.
        how: The method that is called: `search`, `match`, `fullmatch`, `sub`, `findall`, `finditer` or `split`.
        flags: Those of `re.compile`.
    """
    parsed = parser.parse(pattern, flags)
    automaton = Automaton(parsed.state.flags)
    items = list(parsed)
    try:
        whole = automaton.sequence(items, at_start=True)
    except ValueError as error:
        return str(error)
    if how not in ANCHORED:
        before = automaton.position(ALPHABET)
        (position,) = before.first
        automaton.follow[position][position] += 1
        automaton.then(before, whole)
    # A match that has reached its end cannot fail any more, so nothing is tried a second time.
    accepted = set() if how == WHOLE else {one for one in whole.last if not automaton.checked(one)}
    return _ambiguity(automaton, accepted)


def _ambiguity(automaton, accepted):
    follow = {one: dict(after) for one, after in automaton.follow.items()}
    where = _loop_of(follow)
    # What comes by the end of a match in each round has only one round to try again.
    failing = {
        one: {x: ways for x, ways in after.items() if x not in accepted}
        for one, after in follow.items()
        if one not in accepted
    }
    inner = _loop_of(failing)
    for one, after in failing.items():
        if any(ways > 1 and one in inner and inner.get(other) == inner[one] for other, ways in after.items()):
            return "has a repetition inside a repetition that match the same text: exponential time"
    for number in set(inner.values()):
        if _forks(automaton, failing, {one for one in inner if inner[one] == number}):
            return "has alternatives inside a repetition that match the same text: exponential time"
    for p, q in product(sorted(where), sorted(inner)):
        if p != q and _shifts(automaton, follow, (where, inner), p, q):
            texts = " and ".join(_shown(automaton.sets[one]) for one in (p, q))
            return f"has two repetitions, of {texts}, that can share a text between them: quadratic time"
    return ""


def _loop_of(follow):
    """Return the number of its loop for each position that has one: positions of a loop reach each other."""
    reach = {one: _reached(follow, one) for one in follow}
    found = {}
    for one, reached in reach.items():
        if one in reached and one not in found:
            found |= dict.fromkeys((other for other in reached if one in reach.get(other, ())), one)
    return found


def _reached(follow, start):
    seen, waiting = set(), [start]
    while waiting:
        for after in follow.get(waiting.pop(), ()):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


def _forks(automaton, follow, loop):
    """Do two different ways through a loop meet again, over one text?"""
    sets, edges = automaton.sets, {}
    for pair in product(loop, repeat=2):
        after = product(set(follow[pair[0]]) & loop, set(follow[pair[1]]) & loop)
        edges[pair] = [(a, b) for a, b in after if sets[a] & sets[b]]
    start = {(one, one) for one in loop}
    forks = {pair for pair in set().union(*(_reached(edges, one) for one in start)) if pair[0] != pair[1]}
    return any(_reached(edges, pair) & start for pair in forks)


def _shifts(automaton, follow, loops, p, q):
    """Is there a text over which p comes back to p, p leads to q, and q comes back to q?"""
    sets = automaton.sets
    in_p, in_q = ({one for one in where if where[one] == where[of]} for where, of in zip(loops, (p, q), strict=True))
    waiting, seen = [(p, p, q)], set()
    while waiting:
        a, b, c = waiting.pop()
        for x in set(follow.get(a, ())) & in_p:
            for z in set(follow.get(c, ())) & in_q:
                both = sets[x] & sets[z]
                if not both:
                    continue
                for y in follow.get(b, ()):
                    state = (x, y, z)
                    if sets[y] & both and state not in seen:
                        if state == (p, q, q):
                            return True
                        seen.add(state)
                        waiting.append(state)
    return False


def _shown(characters):
    if len(characters) > len(ALPHABET) // 2:
        return "almost any character"
    return repr("".join(map(chr, sorted(characters)))[:20])
