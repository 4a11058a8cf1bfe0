"""Why a model could not be loaded, in one sentence with the way out."""

from collections.abc import Iterator

# Kinds of errors by class name, so that none of the libraries that define them has to be imported.
_KINDS: list[tuple[set[str], str]] = [
    ({"GatedRepoError"}, "the model {name} needs permission: ask for it on its hub page and run `hf auth login`"),
    (
        {"RepositoryNotFoundError"},
        "there is no model {name}, neither as a folder nor on the hub: check the name (a private one needs "
        "`hf auth login`)",
    ),
    ({"RevisionNotFoundError"}, "the model {name} has no such revision: check --revision"),
    (
        {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError", "TimeoutException"},
        "there is no folder {name}, and the hub can't be reached: check the name and the network, or leave --model "
        "out for the default model",
    ),
    ({"OutOfMemoryError", "MemoryError"}, "the model {name} does not fit into memory: use a smaller one"),
]
_PHRASES = [
    ("trust_remote_code", "the model {name} brings its own code: read it, then add --trust-remote-code to run it"),
    ("does not recognize this architecture", "this transformers does not know the kind of model of {name}: update it"),
    ("Unrecognized configuration class", "the model {name} does not generate text: use a causal language model"),
    ("Unrecognized model", "the model {name} has a config.json without a model type: use a causal language model"),
    ("backend tokenizer", "the model {name} has no tokenizer: use a language model with its tokenizer's files"),
    ("no file named", "the folder {name} has no weights: name the folder that has the model's files"),
]


def explain(error: BaseException, name: str) -> str:
    """Return one sentence about why a model could not be loaded.

    Example:
        >>> explain(ValueError("Unrecognized configuration class BertConfig"), "bert")
        'the model bert does not generate text: use a causal language model'
    """
    for cause in _chain(error):
        kinds = {kind.__name__ for kind in type(cause).__mro__}
        for names, sentence in _KINDS:
            if kinds & names:
                return sentence.format(name=name)
    text = " ".join(str(error).split())
    for part, sentence in _PHRASES:
        if part in text:
            return sentence.format(name=name)
    return f"the model {name} can't be loaded: {text.split('. ')[0][:300]}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
