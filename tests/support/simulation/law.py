"""How a law of the simulated world is stated, and what its breach is."""


class Broken(AssertionError):
    """A law does not hold; the message says which, the seed is in the test's name."""


def demand(holds: bool, law: str) -> None:
    """Raise `Broken` unless the law holds."""
    if not holds:
        raise Broken(law)
