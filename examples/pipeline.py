"""A transformers pipeline that is sped up: the same texts, also for several prompts in one batch.

Run it with ``python examples/pipeline.py [MODEL]``; without a model the embedded one is used (93 MB, fetched once).
"""

import sys

import torch
from transformers import pipeline

from lookahead.cli.models import default_model_path
from lookahead.plugins import hf

RECORDS = ['{"id": 1, "city": "Oslo", "open": true}', '{"id": 2, "city": "Rome", "open": true}']
PROMPTS = [
    "\n".join([*RECORDS, '{"id": 3, "city":']),
    "red green blue red green blue red green",
]


def main() -> None:
    """Run the pipeline plainly and with lookup, and compare."""
    name = sys.argv[1] if len(sys.argv) > 1 else str(default_model_path())
    generator = pipeline("text-generation", model=name, dtype=torch.float32)
    generator.tokenizer.pad_token = generator.tokenizer.pad_token or generator.tokenizer.eos_token
    generator.tokenizer.padding_side = "left"
    options = {"max_new_tokens": 16, "do_sample": False, "return_full_text": False, "batch_size": len(PROMPTS)}

    hf.enable(generator.model, generator.tokenizer)

    plain = generator(PROMPTS, lookup=False, **options)
    ours = generator(PROMPTS, **options)  # the options of lookup= may be given here, too
    for prompt, texts in zip(PROMPTS, ours, strict=True):
        print(repr(prompt[-20:]), "->", repr(texts[0]["generated_text"]))
    print("same texts:", plain == ours)
    print(f"{hf.stats(generator.model).mean_acceptance_length:.2f} tokens per row and forward pass")


if __name__ == "__main__":
    main()
