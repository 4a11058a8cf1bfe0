"""Architectures whose multi-token forward the conformance suite compares with token-by-token decoding."""

EXACT: frozenset[str] = frozenset()
