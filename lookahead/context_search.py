"""The search for the longest context: compiled, over the tokens of a segment and the order of their contexts.

A suffix array of the text read backwards makes it one binary search: where the end of a text would stand among the
contexts, its neighbours share the most tokens with it (Manber and Myers, 1993, "Suffix arrays: a new method for
on-line string searches").
"""

from lookahead.suffix_array import kernel

SAMPLES = 16  # occurrences that vote on the continuation; each costs a cache miss


@kernel
def find(tokens, order, suffix):
    """The longest end of `suffix` that goes on in the text: length, occurrences, position, votes, sampled.

    Whatever the arrays hold, nothing outside of them is read: damage can make an answer wrong, never a crash.
    """
    wanted = 0
    while wanted < suffix.size and suffix[suffix.size - 1 - wanted] >= 0:
        wanted += 1
    place, length = _locate(tokens, order, suffix, wanted)
    if length == 0:
        return 0, 0, -1, 0, 0
    low = _edge(tokens, order, suffix, length, place, -1)
    high = _edge(tokens, order, suffix, length, place - 1, 1)
    position, votes, sampled = _vote(tokens, order, low + 1, high)
    if sampled == 0:
        return 0, 0, -1, 0, 0
    return length, high - low - 1, position, votes, sampled


@kernel
def _common(tokens, position, suffix, known, wanted):
    """How many tokens agree, read backwards from `position` and from the end of `suffix`; `known` of them do."""
    if position < 0 or position >= tokens.size:
        return 0
    while known < wanted and known <= position and tokens[position - known] == suffix[suffix.size - 1 - known]:
        known += 1
    return known


@kernel
def _is_below(tokens, position, suffix, common, wanted):
    """Whether the context of `position` sorts before `suffix`, which it shares `common` tokens with."""
    if common == wanted:
        return False
    if not common <= position < tokens.size:
        return True
    return tokens[position - common] < suffix[suffix.size - 1 - common]


@kernel
def _locate(tokens, order, suffix, wanted):
    """The rank at which `suffix` would stand, and how many of its tokens a neighbour there shares."""
    low, high = 0, order.size
    common_low, common_high = 0, 0
    while low < high:
        middle = (low + high) // 2
        position = order[middle]
        common = _common(tokens, position, suffix, min(common_low, common_high), wanted)
        if _is_below(tokens, position, suffix, common, wanted):
            low, common_low = middle + 1, common
        else:
            high, common_high = middle, common
    return low, max(common_low, common_high)


@kernel
def _edge(tokens, order, suffix, length, inside, step):
    """The first rank beyond `inside`, in steps of -1 or 1, whose context does not end in the match.

    The stride doubles while contexts match and halves from then on: a short way costs little, a long one a logarithm.
    """
    rank, stride, growing = inside, 1, True
    while stride > 0:
        probe = rank + step * stride
        if 0 <= probe < order.size and _common(tokens, order[probe], suffix, 0, length) == length:
            rank = probe
        else:
            growing = False
        stride = stride * 2 if growing else stride // 2
    return rank + step


@kernel
def _vote(tokens, order, low, high):
    """Of evenly spread occurrences the latest that goes on as most do, how many these are, and of how many."""
    sampled = min(high - low, SAMPLES)
    best, best_votes, valid = -1, 0, 0
    for one in range(sampled):
        position = order[low + one * (high - low) // sampled]
        if not 0 <= position < tokens.size - 1:
            continue
        valid += 1
        votes = 0
        for other in range(sampled):
            rival = order[low + other * (high - low) // sampled]
            if 0 <= rival < tokens.size - 1 and tokens[rival + 1] == tokens[position + 1]:
                votes += 1
        if votes > best_votes or (votes == best_votes and position > best):
            best, best_votes = position, votes
    return best, best_votes, valid
