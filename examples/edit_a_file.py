"""Edit a file from Python: the same tokens as plain generation, in fewer steps.

Run it with ``python examples/edit_a_file.py [FILE INSTRUCTION]``; without arguments it edits a small settings file.
The first run fetches the default model (93 MB).
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lookahead.cli.answers import extract_file
from lookahead.cli.lines import unified_diff
from lookahead.cli.models import default_model_path
from lookahead.cli.prompts import edit_prompt
from lookahead.plugins import hf

SETTINGS = '{\n  "name": "demo",\n  "port": 80\n}\n'


def main() -> None:
    """Ask for the edited file twice, plainly and with drafts, and compare."""
    name, text, instruction = "settings.json", SETTINGS, "Change the port to 8080."
    if len(sys.argv) == 3:
        name, text, instruction = sys.argv[1], Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2]

    folder = default_model_path()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = hf.enable(AutoModelForCausalLM.from_pretrained(folder, dtype="float32"), tokenizer)

    prompt = edit_prompt(tokenizer, name, text, instruction)
    input_ids = torch.tensor([prompt.ids])
    outputs = []
    for lookup in (False, True):
        output = model.generate(input_ids, do_sample=False, max_new_tokens=1024, lookup=lookup)
        outputs.append(output[0, len(prompt.ids) :].tolist())
        stats = hf.stats(model)
        print(f"lookup={lookup}: {stats.generated_tokens} tokens in {stats.steps} steps, {stats.decode_s:.2f} s")
    print("same tokens:", outputs[0] == outputs[1])

    answer = prompt.opening + tokenizer.decode(outputs[1], skip_special_tokens=True)
    edited = extract_file(answer, text, cut=outputs[1][-1] != tokenizer.eos_token_id)
    print(unified_diff(text, edited, name).text, end="")


if __name__ == "__main__":
    main()
