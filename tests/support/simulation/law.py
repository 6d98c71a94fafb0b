"""Laws of the simulated world, and the exception for their breach."""


class Broken(AssertionError):
    """A law does not hold; the message names the law, the test's name contains the seed."""


def demand(holds: bool, law: str) -> None:
    """Raise `Broken` unless the law holds."""
    if not holds:
        raise Broken(law)
