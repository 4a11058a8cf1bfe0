"""What an enabled model remembers between calls."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from lookahead.batch_pacing import BatchPacing
from lookahead.config import LookupConfig
from lookahead.knowledge import Knowledge
from lookahead.memory import MemoryStore
from lookahead.pacing import Pacing
from lookahead.stats import DecodingStats

logger = logging.getLogger("lookahead")
_ATTRIBUTE = "_lookup_state"


@dataclass
class ModelState:
    """Defaults and tokenizer of one model, what its calls have taught, and their statistics.

    Statistics are kept per thread, so that two generations at once do not mix.
    """

    defaults: LookupConfig | None = field(default_factory=LookupConfig)
    tokenizer: Any = None
    memory: MemoryStore | None = None
    logged: set[str] = field(default_factory=set)
    checked: dict[Any, str | None] = field(default_factory=dict)
    knowledge: Knowledge = field(default_factory=Knowledge)
    by_thread: "WeakKeyDictionary[threading.Thread, DecodingStats]" = field(default_factory=WeakKeyDictionary)
    latest: DecodingStats = field(default_factory=DecodingStats)

    def begin(self, plain_reason: str = "") -> DecodingStats:
        """Return the statistics that the call now starting will fill."""
        self.latest = self.by_thread[threading.current_thread()] = DecodingStats(plain_reason=plain_reason)
        return self.latest

    def stats(self) -> DecodingStats:
        """Return the statistics of this thread's last call, else of the last one in any thread."""
        return self.by_thread.get(threading.current_thread(), self.latest)

    def pacing(self, model: Any, rows: int) -> Pacing:
        """Return what is known of costs and drafts at this model's precision, device and batch size."""
        return self.knowledge.under(model.dtype, model.device, rows)

    def batch_pacing(self, model: Any) -> BatchPacing:
        """Return what is known of the steps of batches at this model's precision and device."""
        pacing = self.knowledge.of_batches(model.dtype, model.device)
        pacing.warm_up()
        return pacing

    def log_plain(self, model: Any, reason: str) -> None:
        """Say once per model and reason that a call was decoded plainly."""
        if reason not in self.logged:
            self.logged.add(reason)
            logger.warning("%s: decoding plainly, because %s", type(model).__name__, reason)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ModelState":
        return ModelState(self.defaults, self.tokenizer, self.memory)

    def __reduce__(self) -> tuple[Any, ...]:
        return ModelState, (self.defaults, self.tokenizer)


def state_of(model: Any) -> ModelState:
    """Return the model's state, made on first use."""
    state = model.__dict__.get(_ATTRIBUTE)
    if state is None:
        state = ModelState()
        set_state(model, state)
    return state


def set_state(model: Any, state: ModelState) -> None:
    """Attach a state to a model."""
    model.__dict__[_ATTRIBUTE] = state


def unwrapped(model: Any) -> Any:
    """Return the transformers model inside a PEFT or torch.compile wrapper, which is the one that has a state."""
    model = getattr(model, "_orig_mod", model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def drop_state(model: Any) -> None:
    """Forget a model's state."""
    model.__dict__.pop(_ATTRIBUTE, None)
