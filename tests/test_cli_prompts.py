"""The prompt holds the file as the answer must have it, and the answer's room fits the context."""

import pytest

from lookahead.cli.adapter import lead_with_instruction
from lookahead.cli.answers import fenced_blocks
from lookahead.cli.errors import CommandError
from lookahead.cli.generation import Sampling, room_for_answer
from lookahead.cli.prompts import Reference, as_seen, edit_prompt, fence_for, render
from lookahead.cli.shared_prefix import shared_length

CHATML = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML


class CharacterTokenizer:
    """One token a character; composed accents, as some tokenizers do; a minimal chat template."""

    all_special_tokens = ("<|end|>",)

    def __init__(self, chat_template: str | None = CHATML) -> None:
        self.chat_template = chat_template

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        ids = [ord(char) for char in text.replace("e\u0301", "\u00e9")]
        return {"input_ids": [0, *ids] if add_special_tokens else ids}

    def decode(self, ids: list[int], **options: bool) -> str:
        return "".join(map(chr, ids))

    def apply_chat_template(self, messages: list[dict[str, str]], **options: bool) -> str:
        from jinja2 import Environment, TemplateError

        def refuse(message: str) -> None:
            raise TemplateError(message)

        template = Environment().from_string(self.chat_template)
        return template.render(messages=messages, raise_exception=refuse, **options)


def text_of(tokenizer: CharacterTokenizer, text: str, instruction: str = "Do it.", path: str = "a.py") -> str:
    return tokenizer.decode(edit_prompt(tokenizer, path, text, instruction).ids)


@pytest.mark.parametrize(
    "text", ["x = 1\n", "x = 1", "\n\n  x\n\n", "```\nx\n```\n", "a ````` b\n", "<b>&amp;</b>\n", "{{ x }} {% y %}\n"]
)
def test_the_file_stands_in_the_prompt_as_one_block_and_exactly(text):
    prompt = text_of(CharacterTokenizer(), text)
    block, opening = fenced_blocks(prompt)
    assert block.complete
    assert block.text == (text if text.endswith("\n") else text + "\n")
    assert not opening.complete


def test_bytes_of_names_that_are_no_utf_8_are_a_mark_in_the_prompt():
    tokenizer = CharacterTokenizer()
    context = [Reference("caf\udce9.py", "y = 1\n")]
    prompt = edit_prompt(tokenizer, "a\udcff.py", "x = 'é'\n", "Set x to \udcfe.", context=context)
    text = tokenizer.decode(prompt.ids)
    text.encode("utf-8")  # tokenizers take nothing else
    assert "caf?.py:\n" in text
    assert "Set x to ?." in text
    assert "x = 'é'" in text


def test_the_answer_begins_with_the_files_own_fence():
    prompt = edit_prompt(CharacterTokenizer(), "src/a.py", "```\n", "Do it.")
    assert prompt.opening == "````python"
    assert CharacterTokenizer().decode(prompt.ids).endswith("<|assistant|>\n````python")


@pytest.mark.parametrize(
    ("template", "opening"),
    [
        ("{{ '<think>\\n' }}", "<think>\n"),
        ("{{ '<think></think>' }}", ""),
        ("{% if enable_thinking %}{% endif %}", ""),
        ("{{ '<|channel|>' }}", ""),
        ("{# [THINK] #}", ""),
    ],
)
def test_a_model_that_thinks_first_may_do_so(template, opening):
    prompt = edit_prompt(CharacterTokenizer(CHATML + template), "a.py", "x\n", "Do it.")
    assert prompt.opening == opening
    assert not CharacterTokenizer().decode(prompt.ids).endswith("```python")


REFERENCES = [Reference("lib/b.py", "y = 2\n"), Reference("c.md", "```\nz\n```\n")]


def test_files_for_reference_come_first_and_whole():
    prompt = edit_prompt(CharacterTokenizer(), "src/a.py", "x = 1\n", "Do it.", context=REFERENCES)
    text = CharacterTokenizer().decode(prompt.ids)
    assert [block.text for block in fenced_blocks(text)][:3] == ["y = 2\n", "```\nz\n```\n", "x = 1\n"]
    assert text.index("lib/b.py:") < text.index("c.md:") < text.index("The file to edit, a.py:")
    assert text.endswith("\n\nDo it.\n<|assistant|>\n```python")


def test_prompts_for_several_files_begin_alike():
    one, two = (
        text_with_references(name, text) for name, text in (("a.py", "x = 1\n"), ("z.py", "quite another text\n"))
    )
    shared = shared_length(one, two)
    assert CharacterTokenizer().decode(one[:shared]).endswith("The file to edit, ")


def text_with_references(name, text):
    return edit_prompt(CharacterTokenizer(), name, text, "Do it.", context=REFERENCES).ids


def test_a_prompt_for_blocks_shows_marks_that_are_not_in_the_file():
    text = "Title\n=======\n"
    prompt = edit_prompt(CharacterTokenizer(), "a.md", text, "Do it.", blocks=True)
    shown = CharacterTokenizer().decode(prompt.ids)
    assert "\n========\n" in shown[: shown.index("Title")]
    assert "\n=======\n" not in shown[: shown.index("Title")]
    assert prompt.opening == ""
    assert shown.endswith("Do it.\n<|assistant|>\n")


def test_the_instruction_is_in_the_prompt_and_the_path_is_not():
    prompt = text_of(CharacterTokenizer(), "x\n", "Rename x to y.\n", "/secret/place/a.py")
    assert prompt.endswith("```\n\nRename x to y.\n<|assistant|>\n```python")
    assert "secret" not in prompt


def test_a_template_may_say_the_instruction_before_the_file_too():
    tokenizer = CharacterTokenizer(CHATML)
    before = text_of(tokenizer, "x\n", " Rename x to y.\n")
    lead_with_instruction(tokenizer)
    assert text_of(tokenizer, "x\n", " Rename x to y.\n") == before.replace(
        "<|user|>\n", "<|user|>\nRename x to y.\n\n"
    )
    messages = [{"role": "user", "content": "U"}]
    assert render(tokenizer, messages) == render(CharacterTokenizer(CHATML), messages)


def test_a_template_of_another_form_is_not_changed_by_a_guess():
    with pytest.raises(ValueError, match="chat_template"):
        lead_with_instruction(CharacterTokenizer("{{ messages }}"))


def test_a_template_without_system_role_gets_all_in_one_message():
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    assert render(CharacterTokenizer(NO_SYSTEM), messages) == ("<|user|>\nS\n\nU\n<|assistant|>\n", True)


def test_without_a_template_the_prompt_is_plain_text_with_the_tokenizers_own_start():
    prompt = edit_prompt(CharacterTokenizer(None), "a.txt", "x\n", "Do it.")
    assert prompt.ids[0] == 0
    assert CharacterTokenizer().decode(prompt.ids[1:]).endswith("Do it.\n\nAnswer:\n```")


def test_a_broken_template_is_an_error_and_no_guess():
    from jinja2 import TemplateError

    with pytest.raises(TemplateError, match="never"):
        render(CharacterTokenizer("{{ raise_exception('never') }}"), [{"role": "user", "content": "U"}])


@pytest.mark.parametrize(
    ("text", "instruction", "what"), [("a<|end|>b\n", "x", "the file"), ("a\n", "<|end|>", "the inst")]
)
def test_control_tokens_are_refused(text, instruction, what):
    with pytest.raises(CommandError, match=rf"{what}\w* contains <\|end\|>, a control token"):
        edit_prompt(CharacterTokenizer(), "a.py", text, instruction)


def test_what_the_tokenizer_normalises_is_known():
    assert as_seen(CharacterTokenizer(), "cafe\u0301\n") == "caf\u00e9\n"


@pytest.mark.parametrize(("text", "fence"), [("", "```"), ("``", "```"), ("```", "````"), ("a`b\n`````\n", "``````")])
def test_the_fence_is_longer_than_any_in_the_file(text, fence):
    assert fence_for(text) == fence


@pytest.mark.parametrize(
    ("context", "prompt", "needed", "wanted", "room"),
    [(None, 10**6, 10**6, 50, 50), (100, 40, 30, 50, 50), (100, 60, 30, 50, 40), (100, 70, 30, 50, 30)],
)
def test_the_answer_may_be_as_long_as_wanted_or_as_the_context_leaves(context, prompt, needed, wanted, room):
    assert room_for_answer(context, prompt, needed, wanted) == room


def test_a_file_larger_than_the_context_is_refused():
    with pytest.raises(CommandError, match=r"larger than the model's context.*71 tokens.*100.*--model"):
        room_for_answer(100, 71, 30, 50)


@pytest.mark.parametrize(
    ("sampling", "arguments"),
    [
        (Sampling(), {"do_sample": False}),
        (Sampling(seed=3), {"do_sample": False}),
        (Sampling(temperature=0.0, top_p=0.9), {"do_sample": False}),
        (Sampling(temperature=0.7), {"do_sample": True, "temperature": 0.7}),
        (Sampling(min_p=0.1), {"do_sample": True, "min_p": 0.1}),
        (Sampling(top_p=0.9, top_k=5), {"do_sample": True, "top_p": 0.9, "top_k": 5}),
    ],
)
def test_greedy_is_the_default_and_any_sampling_option_samples(sampling, arguments):
    assert sampling.arguments() == arguments
