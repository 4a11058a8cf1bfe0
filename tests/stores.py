"""What the tests of stores share: a clock, and what a store finds."""


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def matched(store, namespace, text):
    """Length and occurrences of the longest match, and what follows it."""
    reader = store.reader(namespace)
    match = reader.longest_match(text)
    return match.length, match.occurrences, reader.continuation(match, 100).tolist()
