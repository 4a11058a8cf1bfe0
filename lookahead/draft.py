"""Draft: the tokens that a step proposes to the target model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

ROOT = -1
"""The node before the first draft token: the last committed token."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Token ids that the target model is asked to confirm: a chain, or a tree when ``parents`` is given.

    Attributes:
        tokens: Token id of each node.
        parents: Index of each node's parent, :data:`ROOT` for those that follow the last committed token. Empty
            for a chain, where node ``i`` follows node ``i - 1``. Siblings carry distinct tokens.
        source: Name of the source that the tokens were copied from.
        match_length: Tokens of the current suffix that matched at the source.
        origins: Position in the index that each token was copied from; -1 - p for position p of the memory.
        sources: Of each token, where they are of several, the name of its source and how many tokens matched there.

    Raises:
        ValueError: The links are not those of a tree in which parents come first and siblings differ.

    Example:
        The tree ``5 -> 6`` beside ``7``:

        >>> tree = Draft((5, 6, 7), parents=(-1, 0, -1))
        >>> tree.child(ROOT, 7), tree.child(0, 6), tree.child(2, 9)
        (2, 1, None)
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    source: str = ""
    match_length: int = 0
    origins: tuple[int, ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    _children: dict[tuple[int, int], int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.parents:
            return
        if len(self.parents) != len(self.tokens):
            raise ValueError(f"parents must have one link per token: {len(self.parents)} for {len(self.tokens)}")
        for node, (parent, token) in enumerate(zip(self.parents, self.tokens, strict=True)):
            if not ROOT <= parent < node:
                raise ValueError(f"parents[{node}] must name an earlier node or {ROOT}, got {parent}")
            if self._children.setdefault((parent, token), node) != node:
                raise ValueError(f"siblings must differ: token {token} stands twice below node {parent}")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before it."""
        return not self.parents

    @property
    def depth(self) -> int:
        """Tokens of the longest branch.

        Example:
            >>> Draft((5, 6, 7), (-1, 0, -1)).depth, Draft((5, 6, 7)).depth
            (2, 3)
        """
        if not self.parents:
            return len(self.tokens)
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return max(depths)

    def source_of(self, nodes: Sequence[int]) -> tuple[str, int]:
        """Return source and match of accepted nodes, the draft's own where none was accepted."""
        return self.sources[nodes[-1]] if self.sources and nodes else (self.source, self.match_length)

    def child(self, node: int, token: int) -> int | None:
        """Return the node below ``node`` that carries ``token``, or None when the draft does not offer it."""
        if self.parents:
            return self._children.get((node, token))
        following = node + 1
        return following if following < len(self.tokens) and self.tokens[following] == token else None

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Return the nodes along which the draft foresaw the leading ``tokens``.

        Example:
            >>> Draft((5, 6, 7, 8), (-1, 0, -1, 2)).path([7, 8, 9]), Draft((5, 6, 7)).path([5, 6, 9])
            ([2, 3], [0, 1])
        """
        nodes: list[int] = []
        node = ROOT
        for token in tokens:
            child = self.child(node, token)
            if child is None:
                break
            nodes.append(child)
            node = child
        return nodes

    def cut(self, length: int, stop_tokens: "frozenset[int] | Sequence[int]" = frozenset()) -> "Draft":
        """Return the chain's first ``length`` tokens, ended after the first of ``stop_tokens``.

        Example:
            >>> Draft((5, 6, 2, 8)).cut(10, stop_tokens=(2,)).tokens
            (5, 6, 2)
        """
        kept = next((i + 1 for i, token in enumerate(self.tokens[:length]) if token in stop_tokens), length)
        if kept >= len(self.tokens):
            return self
        return Draft(self.tokens[:kept], (), self.source, self.match_length, self.origins[:kept])


EMPTY = Draft()
"""No proposal: the step decodes one token, as plain generation does."""
