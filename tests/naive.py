"""Obvious brute force: the oracle of every compiled kernel."""

from lookahead.index import Match


class NaiveIndex:
    """SuffixIndex by definition: compare the suffix with every earlier place in the text."""

    def __init__(self, tokens=None, *, max_match=1024):
        self.text = []
        self.start = 0  # of the current document
        self.max_match = max_match
        if tokens is not None:
            self.extend(tokens)

    def extend(self, tokens):
        self.text += [int(token) for token in tokens]

    def end_document(self):
        if self.start < len(self.text):
            self.text.append(-1)
            self.start = len(self.text)

    def skip(self, positions):
        self.text += [-1] * positions
        self.start = len(self.text)

    def longest_match(self):
        return next(iter(self.matches()), Match(0, -1, -1, 0))

    def matches(self):
        """Longest first, one for each set of earlier ends."""
        found = []
        for length in range(min(len(self.text) - self.start, self.max_match), 0, -1):
            ends = self.earlier_ends(length)
            if ends and len(ends) != (found[-1].count if found else 0):
                found.append(Match(length, ends[-1], ends[0], len(ends)))
        return found

    def earlier_ends(self, length):
        return [end for end in ends_of(self.text[-length:], self.text) if end < len(self.text) - 1]

    def continuation(self, end, length):
        text, copied = list(self.text), []
        for source in range(end + 1, end + 1 + length):
            if source == len(text) or text[source] == -1:
                break
            copied.append(text[source])
            text.append(text[source])
        return copied

    @property
    def tokens(self):
        return self.text

    def __len__(self):
        return len(self.text)


def ends_of(pattern, text):
    """The positions at which `pattern` ends in `text`."""
    size = len(pattern)
    return [end for end in range(size - 1, len(text)) if text[end - size + 1 : end + 1] == pattern]


def substrings(text):
    """All distinct substrings of `text` that cross no boundary, as tuples."""
    spans = (tuple(text[i:j]) for i in range(len(text)) for j in range(i + 1, len(text) + 1))
    return {span for span in spans if -1 not in span}


def agreement(text, place, limit, gap_limit):
    """How many tokens before `place` agree with the last ones, and how many more beyond one that differs."""

    def common(one, other, most):
        length = 0
        while length < most and one - length >= 0 and text[one - length] >= 0:
            if text[one - length] != text[other - length]:
                return length
            length += 1
        return length

    match = common(place - 1, len(text) - 1, limit)
    return match, common(place - 2 - match, len(text) - 2 - match, gap_limit)


def space_saving(tokens: list[int], most: int) -> list[list[int]]:
    """Count tokens in so many places, the least and last of which a new one takes over; most first, older first."""
    counted: list[list[int]] = []
    for token in tokens:
        found = next((entry for entry in counted if entry[0] == token), None)
        if found is None:
            found = [token, counted.pop()[1] if len(counted) == most else 0]
            counted.append(found)
        counted.remove(found)
        found[1] += 1
        place = sum(count >= found[1] for _, count in counted)
        counted.insert(place, found)
    return counted
