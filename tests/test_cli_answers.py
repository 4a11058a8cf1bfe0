"""The file is taken from an answer only when it is there, whole, and the only one."""

import time

import pytest

from lookahead.cli.answers import extract_file, fenced_blocks, strip_reasoning
from lookahead.cli.elisions import find_elision
from lookahead.cli.errors import CommandError

ORIGINAL = "import os\n\n\ndef run():\n    return os.getcwd()\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("```\nx\n```", "x\n"),
        ("```python\nx\n```\n", "x\n"),
        ("Here is the file:\n\n```py\nx\ny\n```\n\nI renamed it.", "x\ny\n"),
        ("~~~\nx\n~~~", "x\n"),
        ("````md\n```\nx\n```\n````", "```\nx\n```\n"),
        ("~~~md\n```\nx\n~~~", "```\nx\n"),
        ("```\nx\n`````", "x\n"),
        ("  ```\nx\n  ```", "x\n"),
        ("```\n\n\nx\n\n```", "\n\nx\n\n"),
        ("```\r\nx\r\n```\r\n", "x\n"),
        ("```\nx = '```'\n    ```\n```", "x = '```'\n    ```\n"),
        ("<think>\nmaybe ```a``` or\n```\nno\n```\n</think>\n```\nx\n```", "x\n"),
        ("so I rename it</think>\n```\nx\n```", "x\n"),
        ("```\nx = '</think>'\n```", "x = '</think>'\n"),
    ],
)
def test_the_only_block_is_the_file(answer, text):
    assert extract_file(answer, ORIGINAL) == text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no complete code block"),
        ("I can't do that.", "no complete code block"),
        ("```python\nx", "no complete code block"),
        ("```\nx\n``", "no complete code block"),
        ("````\nx\n```", "no complete code block"),
        ("```\nx\n~~~", "no complete code block"),
        ("```\nx\n``` done", "no complete code block"),
        ("```\nx\n```\nand\n```\ny", "no complete code block"),
        ("inline ```x``` only", "no complete code block"),
        ("<think>\n```\nx\n```", "no complete code block"),
        ("```\nx\n```\n```\ny\n```", "2 code blocks"),
        ("```\n```", "is empty"),
        ("```\n\n  \n```", "is empty"),
        ("```\nimport os\n# ... rest of the code unchanged\n```", "leaves code out"),
    ],
)
def test_anything_else_is_refused_with_a_reason_and_a_way_out(answer, reason):
    with pytest.raises(CommandError, match=reason) as caught:
        extract_file(answer, ORIGINAL)
    assert "--model" in str(caught.value)


def test_a_block_that_another_one_opens_in_is_unclear():
    answer = "```markdown\n# Tool\n\n```sh\ntool run\n```\n\n## License\n\nMIT\n"
    with pytest.raises(CommandError, match="unclear where it ends"):
        extract_file(answer, "# Tool\n")
    longer = "````markdown\n# Tool\n\n```sh\ntool run\n```\n````\n"
    assert extract_file(longer, "# Tool\n") == "# Tool\n\n```sh\ntool run\n```\n"


def test_a_block_is_as_far_to_the_right_as_its_fence():
    assert (
        extract_file("1. The file:\n   ```python\n   if x:\n       y = 3\n  z\n   ```\n", "") == "if x:\n    y = 3\nz\n"
    )


@pytest.mark.parametrize(
    ("original", "answer", "text"),
    [
        (ORIGINAL, "import os\n\n\n", "import os\n"),
        (ORIGINAL, "import re\n\n\n", "import re\n\n\n"),
        (ORIGINAL, ORIGINAL + "\n\n", ORIGINAL + "\n\n"),
        (ORIGINAL + "\n", "import os\n\n\n", "import os\n\n\n"),
        ("a\n\nb\n\n\nc", "a\n\nb\n\n\n", "a\n\nb\n"),
        ("ab\n\nc\n", "b\n\n", "b\n\n"),
    ],
)
def test_blank_lines_before_a_dropped_end_are_dropped_with_it(original, answer, text):
    assert extract_file(f"```\n{answer}```", original) == text


def test_an_answer_cut_by_length_is_refused_even_with_a_complete_block():
    with pytest.raises(CommandError, match="--max-new-tokens"):
        extract_file("```\nx\n```", ORIGINAL, cut=True)


def test_blocks_end_at_fences_of_their_own_kind_and_length():
    blocks = fenced_blocks("a\n```x\n1\n```\nb\n~~~\n2\n```\n~~~~\n````\n3")
    assert [(block.text, block.complete) for block in blocks] == [("1\n", True), ("2\n```\n", True), ("3", False)]


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        ("x", "x"),
        ("<think>a</think>b", "b"),
        ("\n<Thinking>a</Thinking>b", "b"),
        ("<reasoning>a", ""),
        ("a</think>b", "b"),
        ("```\n</think>\n```", "```\n</think>\n```"),
        ("x <think> y", "x <think> y"),
    ],
)
def test_reasoning_is_dropped(answer, rest):
    assert strip_reasoning(answer) == rest


@pytest.mark.parametrize(
    "line",
    [
        "# ...",
        "    # ...",
        "// ...",
        "/* ... */",
        "<!-- ... -->",
        "-- ...",
        "; ...",
        "# …",
        "{/* ... */}",
        "# ... (unchanged)",
        "# ... existing code ...",
        "// ... existing code ...",
        "# existing code here",
        "// rest of the code unchanged",
        "# rest of the code unchanged",
        "# Rest of the code remains the same",
        "# The rest of your code goes here",
        "# ... rest of the file ...",
        "# ... the remaining methods stay as they were",
        "# rest of the Inventory class unchanged",
        "# (other methods remain unchanged)",
        "# ... other methods",
        "# unchanged",
        "# [unchanged code omitted]",
        "# code omitted for brevity",
        "# imports remain unchanged",
        "# same as before",
        "# Everything else stays the same",
        "# No changes needed below, rest of the file is unchanged",
        "    pass  # ... rest of the method unchanged",
        "... existing code ...",
        "... rest of the code ...",
        "[rest of the file unchanged]",
        "(rest of the code remains the same)",
        "Rest of the code unchanged.",
        '"""... rest of the docstring unchanged ..."""',
        "# remaining code",
        "# previous code ...",
        "# snip",
        "# --- rest of code ---",
        "...",
    ],
)
def test_placeholders_for_left_out_code_are_found(line):
    assert find_elision(f"import os\n{line}\nx = 1\n", ORIGINAL) == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "# returns the rest of the queue",
        "# Read the remaining bytes",
        "# skip files that already exist",
        "# the same object is shared by all threads",
        "# original price, before the discount",
        "# existing users keep their role",
        "# retry ... at most three times",
        "# everything is in order",
        "# rest note",
        "x = 1  # unchanged since 1.0",
        "x = rest  # the rest",
        'print("rest of the code unchanged")',
        "print(*rest, ...)",
        "def stub(): ...",
        "x: tuple[int, ...] = ()",
        "return existing_code",
        "# TODO: use the original implementation's cache key",
        "## Other methods of payment",
        "* ... and so on",
        "http://example.com/rest",
        "loading ...",
        "...rest,",
        "{...rest}",
        "(...rest) => {",
        "# Remaining settings",
        "# rest of the items",
    ],
)
def test_remarks_about_the_program_are_none(line):
    assert find_elision(f"import os\n{line}\nx = 1\n", ORIGINAL) is None


def test_a_long_run_of_spaces_in_a_comment_is_no_trouble():
    assert find_elision("# a" + " " * 200_000 + "b\n", ORIGINAL) is None


@pytest.mark.parametrize("above", ["def f():", "class A(Protocol):", '    """Do it."""', "    def f(self) -> int:"])
def test_dots_are_a_body_below_a_colon_or_a_docstring(above):
    assert find_elision(f"{above}\n\n        ...\n", ORIGINAL) is None


@pytest.mark.parametrize("line", ["# ... rest of the code unchanged", "...", "# ...", "(rest of the file unchanged)"])
def test_a_phrase_that_stands_in_the_original_is_no_elision(line):
    assert find_elision(f"x = 2\n{line}\n", f"x = 1\n  {line.upper()}\n") is None


def test_a_phrase_of_the_original_does_not_excuse_another():
    assert find_elision("# ... existing code ...\n", "# ...\n") == "# ... existing code ..."


LONG = "key: 1\n" + "".join(f"other_{number}: {number}\n" for number in range(8)) + "last: 2\n"


@pytest.mark.parametrize(
    "line",
    [
        "# ... 其余配置保持不变 ...",
        "# ... restlicher Code",
        "# ... le reste du code reste inchangé ...",
        "// … resto del código sin cambios …",
        "# ... остальной код без изменений ...",
        "# Other keys unchanged",
        "# ... more settings ...",
        "# ... (lines 20-100 unchanged)",
        "# lines 20-100 unchanged",
        "-- rest of the queries",
        "REM rest of the module",
        "# Remaining settings",
        "# remaining items unchanged",
        "# ... and so on",
        "<!-- rest of the page -->",
        "{/* rest of component */}",
        "{# rest of template #}",
        "{{!-- rest --}}",
        "*(rest of the document unchanged)*",
        "Rest of the page unchanged.",
        '"...": "...",',
        '"... rest of the keys"',
        "- ... other items",
        "| ... | ... |",
        "# Keep the rest of the settings",
        "# rest of the Inventory class and its methods",
    ],
)
def test_placeholders_in_the_place_of_more_lines_are_found_in_any_language(line):
    assert find_elision(f"key: 1\n{line}\nlast: 2\n", LONG) == line
    assert find_elision(f"key: 2\n{line}\nlast: 2\n", LONG) == line


@pytest.mark.parametrize(
    "line",
    [
        "# the users that are left",
        "# try again ... at most three times",
        "...defaults,",
        "{...props} />",
        "print(first, ...)",
        "other: [1, 2]",
        "def other(): ...",
        "# remaining time in seconds",
    ],
)
def test_what_stands_in_the_place_of_more_lines_may_be_shorter(line):
    assert find_elision(f"key: 1\n{line}\nlast: 2\n", LONG) is None


@pytest.mark.parametrize("line", ["# ... Werte", "# Loading the values...", "# ... 其余"])
def test_dots_tell_nothing_where_no_lines_are_gone(line):
    assert find_elision(LONG.replace("last", f"{line}\nlast"), LONG) is None
    assert find_elision(LONG.replace("other_3: 3", line), LONG) is None


def test_a_comment_that_trails_off_is_a_placeholder_where_it_is_all_that_stands_there():
    assert find_elision("key: 1\n# der Rest wie bisher ...\nlast: 2\n", LONG) == "# der Rest wie bisher ..."
    assert find_elision("key: 1\n# Loading the values...\nload()\nlast: 2\n", LONG) is None


def test_a_body_of_dots_below_a_colon_is_none_in_the_place_of_more_lines():
    assert find_elision("def f():\n    ...\n", "def f():\n    x = 1\n    return x\n") is None


def test_a_long_rule_of_dashes_is_no_trouble():
    began = time.process_time()
    assert find_elision("# " + "-" * 100_000 + " x\n", ORIGINAL) is None
    assert time.process_time() - began < 1
