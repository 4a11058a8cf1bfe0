"""The library in ten lines: enable a model, generate as ever, and see what drafting did.

Run it with ``python examples/use_from_python.py [MODEL]``; without a model the embedded one is used (93 MB, fetched
once).
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.cli.models import default_model_path
from lookahead.plugins import hf

PARTS = [
    f"part {number}: {name}, 4 pieces, checked" for number, name in enumerate(["bolt", "nut", "washer", "hinge"], 1)
]
QUESTION = "Repeat this list word for word:\n" + "\n".join(PARTS)


def main() -> None:
    """Generate plainly, with lookup, sampled, and with a text that the output will resemble."""
    name = sys.argv[1] if len(sys.argv) > 1 else default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    messages = [{"role": "user", "content": QUESTION}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    options = {"max_new_tokens": 28, "do_sample": False}

    hf.enable(model, tokenizer)  # from here on every generate() is sped up

    plain = model.generate(**inputs, **options, lookup=False)
    ours = model.generate(**inputs, **options)
    print(tokenizer.decode(ours[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
    print("same tokens:", torch.equal(plain, ours))
    print(f"{hf.stats(model).mean_acceptance_length:.2f} tokens per forward pass")

    torch.manual_seed(1)
    sampled = model.generate(**inputs, max_new_tokens=16, do_sample=True, temperature=0.7, lookup=False)
    torch.manual_seed(1)
    again = model.generate(**inputs, max_new_tokens=16, do_sample=True, temperature=0.7)
    print("same sample:", torch.equal(sampled, again))

    model.generate(**inputs, **options, lookup={"prediction": "\n".join(PARTS)})
    print(f"{hf.stats(model).mean_acceptance_length:.2f} with a prediction")


if __name__ == "__main__":
    main()
