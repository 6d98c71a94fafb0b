"""Returns the reason why a regular expression may take more than linear time; an empty answer proves that it cannot.

Python's engine tries each way in which an expression can match. So its time is linear if the number of ways is bounded,
whatever the string. The expression becomes its position automaton, and the automaton is searched for the two shapes of Weber
and Seidl ("On the degree of ambiguity of finite automata"). One is a state with two loops over one string (exponential time).
The other is two states with loops over one string that also leads from the first to the second (at least quadratic time).

A search may begin at each character. It is checked as if any string preceded the expression.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from re import _constants as ops
from re import _parser as parser

ALPHABET = (*range(256), 0x0130, 0x2028, 0x1F9E8)
"""Characters that stand for all others; no expression of the project distinguishes two that are missing here."""

COPIES_MAX = 64
"""A repetition with a larger bound is checked as one without a bound."""

INNER_COPIES_MAX = 8
"""The same for a repetition inside another one: their bounds multiply."""

STARTS = {ops.AT_BEGINNING, ops.AT_BEGINNING_STRING}
WHOLE = "fullmatch"
ANCHORED = ("match", WHOLE)
START = -1
"""The place before the first character, as a character: no repetition can match it."""

BITS = {character: 1 << number for number, character in enumerate((START, *ALPHABET))}

NEVER = frozenset()
"""Successor of a position where a match can still fail, as before `$`."""


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
    """Positions of characters and their possible successors, with the number of ways."""

    flags: int
    sets: list = field(default_factory=list)
    masks: list = field(default_factory=list)
    """The same sets as integers with a bit for each character: most of the time goes to their intersections."""

    follow: dict = field(default_factory=lambda: defaultdict(Counter))

    def position(self, characters):
        """Return the part of one character."""
        self.sets.append(frozenset(characters))
        self.masks.append(sum(BITS[character] for character in characters))
        return Part(Counter([len(self.sets) - 1]), Counter([len(self.sets) - 1]), 0)

    def follows(self, last, first):
        """Record that positions can follow each other."""
        for position, ways in last.items():
            for after, more in first.items():
                self.follow[position][after] += ways * more

    def then(self, first, second):
        """Return the part of one after the other."""
        self.follows(first.last, second.first)
        return Part(
            first.first + _times(second.first, first.empty),
            second.last + _times(first.last, second.empty),
            first.empty * second.empty,
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
        """Return the part of a look-ahead or look-behind: one character if it matches exactly one, else nothing."""
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
        """Return whether a match that ends with this position can still fail."""
        return any(not self.sets[after] for after in self.follow[position])


def _times(positions, ways):
    return Counter({position: ways * more for position, more in positions.items() if ways})


def characters(op, argument, flags):
    """Return the characters of the alphabet that an item matches."""
    return _characters(op, tuple(argument) if op is ops.IN else argument, flags)


@cache
def _characters(op, argument, flags):
    # The library itself decides: it implements categories and case folding.
    matched = {chr(character) for character in ALPHABET if _matches(op, argument, flags, character)}
    if flags & re.IGNORECASE:
        matched |= {character.upper() for character in matched if len(character.upper()) == 1} | {
            character.lower() for character in matched if len(character.lower()) == 1
        }
    return {ord(character) for character in matched} & set(ALPHABET)


def _matches(op, argument, flags, code):
    if op is ops.LITERAL:
        return code == argument
    if op is ops.NOT_LITERAL:
        return code != argument
    if op is ops.ANY:
        return bool(flags & re.DOTALL) or code != ord("\n")
    negated = argument[0][0] is ops.NEGATE
    return negated != any(_in(inner, value, flags, code) for inner, value in argument[negated:])


def _in(op, value, flags, code):
    if op is ops.LITERAL:
        return code == value
    if op is ops.RANGE:
        return value[0] <= code <= value[1]
    return (code in _category(value.name.removeprefix("CATEGORY_").removeprefix("NOT_"), flags & re.ASCII)) != (
        "NOT_" in value.name
    )


@cache
def _category(name, flags):
    expression = re.compile("\\" + {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name], flags)
    return frozenset(code for code in ALPHABET if expression.match(chr(code)))


@cache
def cost_of(pattern, how="search", flags=0):
    """Return the reason why an expression may take more than linear time, or an empty string.

    Args:
        pattern: String or bytes.
        how: The called method: `search`, `match`, `fullmatch`, `sub`, `findall`, `finditer` or `split`.
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
    accepted = set() if how == WHOLE else {position for position in whole.last if not automaton.checked(position)}
    return _ambiguity(automaton, accepted)


def _ambiguity(automaton, accepted):
    follow = {position: dict(after) for position, after in automaton.follow.items()}
    where = _loop_of(follow)
    # A loop that passes the end of a match in each round has only one round to try again.
    failing = {
        position: {x: ways for x, ways in after.items() if x not in accepted}
        for position, after in follow.items()
        if position not in accepted
    }
    inner = _loop_of(failing)
    for position, after in failing.items():
        if any(ways > 1 and position in inner and inner.get(other) == inner[position] for other, ways in after.items()):
            return "has a repetition inside a repetition that match the same text: exponential time"
    for number in set(inner.values()):
        if _forks(automaton, failing, {position for position in inner if inner[position] == number}):
            return "has alternatives inside a repetition that match the same text: exponential time"
    for p, q in product(sorted(where), sorted(inner)):
        if p != q and _shifts(automaton, follow, (where, inner), p, q):
            shown = " and ".join(_shown(automaton.sets[position]) for position in (p, q))
            return f"has two repetitions, of {shown}, that can share a text between them: quadratic time"
    return ""


def _loop_of(follow):
    """Return the number of its loop for each position that has one: positions of a loop reach each other."""
    reach = {position: _reached(follow, position) for position in follow}
    loops = {}
    for position, reached in reach.items():
        if position in reached and position not in loops:
            loops |= dict.fromkeys((other for other in reached if position in reach.get(other, ())), position)
    return loops


def _reached(follow, start):
    seen, waiting = set(), [start]
    while waiting:
        for after in follow.get(waiting.pop(), ()):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return seen


def _forks(automaton, follow, loop):
    """Return whether two different ways through a loop meet again, over one string."""
    masks, edges = automaton.masks, {}
    for pair in product(loop, repeat=2):
        after = product(set(follow[pair[0]]) & loop, set(follow[pair[1]]) & loop)
        edges[pair] = [(a, b) for a, b in after if masks[a] & masks[b]]
    start = {(position, position) for position in loop}
    forks = {pair for pair in set().union(*(_reached(edges, position) for position in start)) if pair[0] != pair[1]}
    return any(_reached(edges, pair) & start for pair in forks)


def _shifts(automaton, follow, loops, p, q):
    """Return whether a string exists over which p returns to p, p leads to q, and q returns to q."""
    masks = automaton.masks
    in_p, in_q = (
        {position for position in where if where[position] == where[of]}
        for where, of in zip(loops, (p, q), strict=True)
    )
    waiting, seen = [(p, p, q)], set()
    while waiting:
        a, b, c = waiting.pop()
        for x in set(follow.get(a, ())) & in_p:
            for z in set(follow.get(c, ())) & in_q:
                both = masks[x] & masks[z]
                if not both:
                    continue
                for y in follow.get(b, ()):
                    state = (x, y, z)
                    if masks[y] & both and state not in seen:
                        if state == (p, q, q):
                            return True
                        seen.add(state)
                        waiting.append(state)
    return False


def _shown(characters):
    if len(characters) > len(ALPHABET) // 2:
        return "almost any character"
    return repr("".join(map(chr, sorted(characters)))[:20])
