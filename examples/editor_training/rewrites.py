"""Edits that rewrite a loop or calls; the file gets what is rewritten first."""

import re

from editor_training.additions import with_import
from editor_training.code import Code
from editor_training.edits import Edit, Impossible, Setting
from editor_training.phrases import say


def loop_to_sum(s: Setting) -> Edit:
    """Turn a loop that adds up into a call of sum(); the function is made up and put into the file."""
    random, words = s.random, s.words
    name, noun = s.new(words.function), s.new(lambda r: r.choice(words.entities))
    total = s.new(lambda r: r.choice([*words.locals, *words.ints]))
    field, many = random.choice([*words.ints, *words.floats]), noun + "s"
    item, source = random.choice(
        [
            (f"{noun}.{field}", many), (f"{noun}.{field} * {noun}.{random.choice(words.ints)}", many), (noun, many),
            (f"len({noun})", many), (f'{noun}["{field}"]', many), (f"{noun} ** 2", many), (f"int({noun})", many),
            (f"{noun}.{field}()", f"self.{many}"), (f"{noun}.{field}", f"self._{many}.values()"),
        ]
    )  # fmt: skip
    is_method = source.startswith("self")
    flag = random.choice(words.bools)
    test = random.choice(["", "", f"{noun}.{flag}", f"{noun} > {random.randint(0, 9)}", f"{item} > 0"])
    result = random.choice(["", "", f"{total} / len({many})", f'f"{{{total}}} {field}"', f"round({total}, 2)"])
    result = "" if is_method else result
    doc = f'    """Return the {field} of all {many}."""\n' if random.random() < 0.4 else ""
    head = f"def {name}({'self' if is_method else many}):\n{doc}"
    before = head + _loop(total, noun, source, item, test) + f"    return {result or total}\n"
    added = f"sum({_added(noun, source, item, test)})"
    after = head + (f"    {total} = {added}\n    return {result}\n" if result else f"    return {added}\n")
    return _inserted(s, say(random, "sum", name=name), (before, after), is_method, name)


def _loop(total: str, noun: str, source: str, item: str, test: str) -> str:
    step = f"{total} += {item}\n"
    inner = f"        if {test}:\n            {step}" if test else f"        {step}"
    return f"    {total} = 0\n    for {noun} in {source}:\n{inner}"


def _added(noun: str, source: str, item: str, test: str) -> str:
    if item == noun and not test:
        return source
    return f"{item} for {noun} in {source}" + (f" if {test}" if test else "")


def _inserted(s: Setting, instruction: str, versions: tuple[str, str], is_method: bool, name: str) -> Edit:
    """Return the edit with its function behind some other of the file."""
    nodes = s.pick(s.code.classes).body if is_method else s.code.tree.body
    row = s.code.span(s.pick([node for node in nodes if type(node).__name__ in ("FunctionDef", "ClassDef")]))[1]
    indent, gap = ("    ", [""]) if is_method else ("", ["", ""])
    texts = []
    for version in versions:
        block = [indent + line for line in version.rstrip("\n").split("\n")]
        texts.append("\n".join([*s.code.lines[:row], *gap, *block, *s.code.lines[row:]]))
        Code(texts[-1])
    return Edit("loop_to_sum", instruction, texts[0], texts[1], (name,))


def print_to_logging(s: Setting) -> Edit:
    """Turn all prints into logging.info, and import logging."""
    if "logging" in s.code.text:
        raise Impossible
    before = _with_prints(s)
    after = logged(before)
    if after == before:
        raise Impossible
    after = with_import(Code(after), "import logging")
    Code(after)
    return Edit("print_to_logging", say(s.random, "logging"), before, after)


def logged(text: str) -> str:
    """Return a text with every print on a line of its own turned into logging.info.

    Raises:
        Impossible: Some print has another form.

    Example:
        >>> logged('print("size:", n)')
        'logging.info("size: %s", n)'
    """
    lines = []
    for line in text.split("\n"):
        match = re.fullmatch(r"(\s*)print\((.+)\)", line)
        if "print(" in line and not match:
            raise Impossible
        lines.append(match[1] + _logged_call(match[2]) if match else line)
    return "\n".join(lines)


def _logged_call(arguments: str) -> str:
    label = re.fullmatch(r'"([^"%\\]+)", ([^"\'=]+)', arguments)
    if label and _is_single(label[2]):
        return f'logging.info("{label[1]} %s", {label[2]})'
    if not _is_single(arguments):
        raise Impossible
    return f"logging.info({arguments})"


def _is_single(arguments: str) -> bool:
    """Whether the text is one argument."""
    call = Code(f"f({arguments})").tree.body[0].value  # type: ignore[attr-defined]
    return len(call.args) == 1 and not call.keywords and type(call.args[0]).__name__ != "Starred"


def _with_prints(s: Setting) -> str:
    """Return the file with some prints in front of the last statements of functions."""
    random, lines = s.random, list(s.code.lines)
    functions = [function for function in s.code.functions if function.body[-1].lineno > function.lineno]
    chosen = random.sample(functions, min(len(functions), random.randint(1, 3)))
    for function in sorted(chosen, key=lambda function: -function.body[-1].lineno):
        row = function.body[-1].lineno - 1
        line = lines[row]
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        lines.insert(row, line[: len(line) - len(line.lstrip())] + f"print({_printed(s, names)})")
    text = "\n".join(lines)
    try:
        Code(text)
    except SyntaxError:  # a statement stood behind others on its line
        raise Impossible from None
    return text


def _printed(s: Setting, names: list[str]) -> str:
    noun = s.words.noun(s.random)
    if not names:
        return f'"{noun} {s.random.choice(s.words.verbs)}"'
    name = s.random.choice(names)
    return s.random.choice([f'"{noun}"', f'f"{noun}: {{{name}}}"', f'"{noun}:", {name}', name])
