"""Files made up to be edited: modules of classes, functions and constants, with every name drawn anew."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from string import Template

from editor_training import methods, templates
from editor_training.words import Words

_NUMBERS = (0, 1, 2, 3, 5, 8, 10, 12, 16, 20, 25, 30, 50, 64, 100, 128, 250, 500, 1000)
_COMMENTS = 0.15  # share of functions with a comment, in varied files
_TWINS = 0.4  # share of containers that have two methods which are nearly the same
_MODULES = ("json", "os", "re", "sys", "math", "time")


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed value with a default."""

    name: str
    type: str
    default: str


class Shaper:
    """Makes up one file.

    Args:
        random: Source of all choices.
        words: Names to use.
        varied: Whether to draw from more forms, with comments, private names, and names that functions share.
    """

    def __init__(self, random: Random, words: Words, *, varied: bool = False) -> None:
        self._random = random
        self._words = words
        self._varied = varied
        self._nouns: list[str] = []
        self._used: set[str] = set()
        self._typed = random.random() < 0.6
        self._documented = random.random() < 0.6
        self._entity = ""
        self._fields: list[Field] = []
        self._imports: set[str] = set()
        self._errors: list[str] = []
        self._calls: list[tuple[str, str]] = []
        self._spent: set[str] = set()

    def file(self, parts: int) -> str:
        """Return a module of so many classes and functions, constants and a main block left out."""
        random = self._random
        blocks = [self._constants()] if random.random() < 0.35 else []
        makers: list[Callable[[], str]] = [self._function] * 5 + [self._caller] * 2
        makers += [self._dataclass, self._container, self._container, self._error]
        makers += [self._service] * 3 if self._varied else []
        if parts >= 3 and random.random() < 0.6:
            makers = [self._function, self._function, self._container, self._container, self._caller]
            blocks += [self._error()] if random.random() < 0.5 else []
            blocks.append(self._dataclass())
        blocks += [random.choice(makers)() for _ in range(parts)]
        if random.random() < 0.4:
            blocks.append(self._main())
        return self._header(blocks[0]) + "\n\n\n".join(block.rstrip("\n") for block in blocks) + "\n"

    def _header(self, first: str) -> str:
        """Return docstring and imports, with the blank lines in front of the first block."""
        text = f'"""{self._sentence()}"""\n' if self._random.random() < 0.4 else ""
        for module in self._random.sample(_MODULES, 2):
            if self._random.random() < 0.3:
                self._imports.add(f"import {module}")
        ordered = sorted(self._imports, key=lambda line: (line.startswith("from"), line.lower()))
        gap = "\n" if first[0].isupper() else "\n\n"
        if ordered:
            return text + ("\n" if text else "") + "\n".join(ordered) + "\n" + gap
        return text + gap if text else ""

    def _fresh(self, make: Callable[[Random], str]) -> str:
        """Return a name that the file has not yet."""
        for _ in range(50):
            name = make(self._random)
            if name not in self._used:
                break
        while self._varied and name in self._used:  # few words
            name += f"_{self._words.noun(self._random)}"
        self._used.add(name)
        return name

    def _named(self, make: Callable[[Random], str]) -> str:
        """Return a new name of a function or method, now and then a private one."""
        if self._varied and self._random.random() < 0.12:
            return self._fresh(lambda random: "_" + make(random))
        return self._fresh(make)

    def _noun(self) -> str:
        """Return a noun, in a varied file rather one that a function had before."""
        if self._varied and self._nouns and self._random.random() < 0.5:
            return self._one(self._nouns)
        self._nouns.append(self._one(self._words.entities))
        return self._nouns[-1]

    def _one(self, words: Sequence[str]) -> str:
        return self._random.choice(words)

    def _sentence(self) -> str:
        """Return a docstring, which may have words that are names in the file."""
        known = sorted(name for name in self._used if name.islower() and name.isalpha())
        noun = self._one(known) if known and self._random.random() < 0.5 else ""
        return self._words.sentence(self._random, noun)

    def _doc(self) -> str:
        return f'"""{self._sentence()}"""' if self._documented and self._random.random() < 0.85 else ""

    def _field(self) -> Field:
        kind = self._one(["int", "int", "str", "str", "float", "bool"])
        words = self._words
        pool = {"int": words.ints, "str": words.strings, "float": words.floats, "bool": words.bools}[kind]
        return Field(self._fresh(lambda random: random.choice(pool)), kind, self._literal(kind))

    def _literal(self, kind: str) -> str:
        if kind == "int":
            return str(self._random.choice(_NUMBERS))
        if kind == "float":
            return self._one(["0.0", "0.5", "1.0", "1.5", "0.25", "2.0", "0.1", "0.75", "3.5"])
        if kind == "bool":
            return self._one(["True", "False"])
        return f'"{self._words.noun(self._random)}"'

    def _hinted(self, name: str, kind: str, default: str = "") -> str:
        """Return a parameter, with its type in a file that has types."""
        if self._typed:
            return f"{name}: {kind}" + (f" = {default}" if default else "")
        return name + (f"={default}" if default else "")

    def _filled(self, template: str, **slots: str) -> str:
        """Return a template with its slots filled; those that name a type are the result's hint."""
        kinds = {"none": "None", "list_str": "list[str]", "dict": "dict[str, object]", "dict_int": "dict[str, int]"}
        kinds |= {name: name for name in ("int", "str", "float", "bool")}
        kinds |= {"Entity": self._entity, "list_entity": f"list[{self._entity}]"}
        kinds |= {name: slots.pop(f"to_{name}") for name in ("value", "list_value", "type") if f"to_{name}" in slots}
        hints = {name: f" -> {kind}" if self._typed else "" for name, kind in kinds.items()}
        text = Template(template).substitute({**hints, **slots, "DOC": self._doc()})
        lines = [line for line in text.splitlines(keepends=True) if line.strip()]
        if self._varied and self._random.random() < _COMMENTS:
            row = self._random.randrange(1, len(lines))
            indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
            lines.insert(row, f"{indent}# {self._sentence().rstrip('.').lower()}\n")
        return "".join(lines)

    def _constants(self) -> str:
        lines = []
        for _ in range(self._random.randint(1, 3)):
            prefix = self._one(["MAX", "MIN", "DEFAULT", "BASE"])
            name = self._fresh(lambda random, prefix=prefix: f"{prefix}_{self._words.noun(random)}".upper())
            lines.append(f"{name} = {self._literal(self._one(['int', 'int', 'str', 'float']))}")
        return "\n".join(lines)

    def _error(self) -> str:
        prefix = self._one(["Unknown", "Missing", "Invalid", "Duplicate"])
        name = self._fresh(lambda random: prefix + self._words.klass(random) + "Error")
        self._errors.append(name)
        doc = f'"""Raised when a {self._words.noun(self._random)} is {self._one(self._words.adjectives)}."""'
        return f"class {name}({self._one(['Exception', 'ValueError', 'LookupError'])}):\n    {doc}"

    def _class_doc(self) -> str:
        doc = self._doc()
        return f"    {doc}\n\n" if doc else ""

    def _dataclass(self) -> str:
        name = self._fresh(self._words.klass)
        fields = [self._field() for _ in range(self._random.randint(2, 4))]
        self._entity, self._fields = name, fields
        half = len(fields) // 2
        lines = [f"    {f.name}: {f.type}" + (f" = {f.default}" if f in fields[half:] else "") for f in fields]
        self._calls.append((name, f"{name}({', '.join(f.default for f in fields)})"))
        needed = "from dataclasses import dataclass"
        if self._random.random() < 0.35:
            made = self._one(["list", "set"])
            lines.append(f"    {self._one(self._words.entities)}s: {made}[str] = field(default_factory={made})")
            self._imports.discard(needed)
            self._imports.add(f"{needed}, field")
        elif f"{needed}, field" not in self._imports:
            self._imports.add(needed)
        using = [self._field_method(fields) for _ in range(self._random.randint(0, 2))]
        return f"@dataclass\nclass {name}:\n{self._class_doc()}" + "\n".join(lines) + "\n" + "".join(using)

    def _field_method(self, fields: list[Field]) -> str:
        field, other, name = self._random.choice(fields), self._field(), self._fresh(self._words.method)
        forms = {"int": methods.NUMBER_METHODS, "float": methods.NUMBER_METHODS, "str": methods.TEXT_METHODS}
        return self._method(
            forms.get(field.type, methods.FLAG_METHODS), name=name, to_type=field.type, field=field.name,
            other=other.name, other_typed=self._hinted(other.name, other.type), step=self._hinted("step", field.type),
            digit=str(self._random.randint(2, 9)), change=self._one(["lower", "upper", "title"]),
            between=self._one(["-", ":", "of", "in"]), second=self._random.choice(fields).name,
        )  # fmt: skip

    def _method(self, forms: Sequence[str], **slots: str) -> str:
        return "\n" + textwrap.indent(self._filled(self._form(forms), **slots), "    ")

    def _form(self, forms: Sequence[str]) -> str:
        """Return one of the templates, most often one that the file has not yet."""
        new = [form for form in forms if form not in self._spent]
        form = self._one(new if new and self._random.random() < 0.8 else forms)
        self._spent.add(form)
        return form

    def _container(self) -> str:
        words = self._words
        name, noun = self._fresh(words.klass), self._one(words.entities)
        limit, key = self._field(), self._fresh(lambda random: random.choice(words.strings))
        value = self._entity or self._one(["int", "str", "float"])
        self._used.add(noun)
        hint, none = (f": dict[str, {value}]", " -> None") if self._typed else ("", "")
        doc = self._doc()
        text = f"class {name}:\n{self._class_doc()}"
        text += f"    def __init__(self, {self._hinted(limit.name, limit.type, limit.default)}){none}:\n"
        text += (f"        {doc}\n" if doc else "") + f"        self.{limit.name} = {limit.name}\n"
        text += f"        self._{noun}s{hint} = {{}}\n"
        self._calls.append((name, f"{name}({limit.name}={limit.default})"))
        parts = [f"_{noun}s", noun, limit, key, value]
        many = self._random.randint(1, 5)
        twins = self._random.randrange(many) if self._random.random() < _TWINS else -1
        for number in range(many):
            text += self._twins(*parts) if number == twins else self._container_method(*parts)
        return text

    def _container_method(self, store: str, noun: str, limit: Field, key: str, value: str) -> str:
        forms = list(methods.CONTAINER_METHODS)
        forms += methods.LIMIT_METHODS if limit.type == "int" else ()
        if value == self._entity:
            forms += [*methods.ENTITY_METHODS, *(methods.MORE_ENTITY_METHODS if self._varied else ())]
        slots = self._container_slots(store, noun, limit, key, value)
        return self._method(forms, name=self._named(self._words.method), **slots)

    def _twins(self, store: str, noun: str, limit: Field, key: str, value: str) -> str:
        """Return two methods that are nearly the same."""
        pair = self._random.choice([*methods.TWINS, *(methods.ENTITY_TWINS * 2 if value == self._entity else ())])
        slots = self._container_slots(store, noun, limit, key, value)
        order = pair if self._random.random() < 0.5 else pair[::-1]
        return "".join(self._method((form,), name=self._fresh(self._words.method), **slots) for form in order)

    def _container_slots(self, store: str, noun: str, limit: Field, key: str, value: str) -> dict[str, str]:
        error = self._one(self._errors) if self._errors and self._random.random() < 0.7 else "ValueError"
        trouble = self._one(["unknown", "no such", "missing", "duplicate"])
        field = self._random.choice(self._fields or [limit])
        word = self._words.noun(self._random)
        return {
            "key": key, "key_typed": self._hinted(key, "str"), "noun": noun, "noun_typed": self._hinted(noun, value),
            "store": store, "error": error, "message": f"{trouble} {word}", "word": word, "limit": limit.name,
            "to_value": value, "to_list_value": f"list[{value}]", "field": field.name,
            "field_typed": self._hinted(field.name, field.type), "step": self._hinted("step", "int"),
            "n": limit.default if limit.type == "int" else "0",
        }  # fmt: skip

    def _function(self) -> str:
        name, a, b = self._named(self._words.function), self._field(), self._field()
        noun, entity = self._noun(), self._entity
        forms = [*templates.FUNCTIONS, *(templates.ENTITY_FUNCTIONS if entity else ())]
        forms += templates.MORE_FUNCTIONS if self._varied else ()
        made = ", ".join(f"{f.name}={f.default}" for f in self._fields)
        text = self._filled(
            self._form(forms), name=name, a=a.name, a_typed=self._hinted(a.name, a.type), b=b.name,
            b_default=self._hinted(b.name, b.type, b.default), v=self._variable(), noun=noun, nouns=noun + "s",
            texts=self._hinted(noun + "s", "list[str]"), numbers=self._hinted(noun + "s", "list[int]"),
            text=self._hinted("text", "str"), s=self._literal("str"), n=self._literal("int"), m=self._literal("int"),
            entity=entity.lower(), entity_typed=self._hinted(entity.lower(), entity),
            entities_typed=self._hinted(noun + "s", f"list[{entity}]"), made=f"{entity}({made})",
            field=self._random.choice(self._fields or [a]).name, field2=self._random.choice(self._fields or [a]).name,
        )  # fmt: skip
        if "json." in text:
            self._imports.add("import json")
        count = text.split("(", 1)[1].split(")")[0].count(",") + 1
        if not text.split("(", 1)[1].startswith("path"):
            arguments = [self._one(self._words.locals), *(self._literal("int") for _ in range(count - 1))]
            self._calls.append((name, f"{name}({', '.join(arguments)})"))
        return text

    def _service(self) -> str:
        """Return a class that keeps what it is made with, and methods that use it."""
        first, second, name = self._field(), self._field(), self._fresh(self._words.klass)
        count, helper = self._variable(), self._fresh(lambda random: "_" + self._words.method(random))
        text = f"class {name}:\n{self._class_doc()}"
        made = f"{self._hinted(first.name, first.type)}, {self._hinted(second.name, second.type, second.default)}"
        text += f"    def __init__(self, {made}){' -> None' if self._typed else ''}:\n"
        text += "".join(f"        self.{one.name} = {one.name}\n" for one in (first, second))
        text += f"        self.{count} = 0\n"
        forms = self._random.sample(methods.SERVICE_METHODS, self._random.randint(1, 4))
        slots = {"first": first.name, "second": second.name, "count": count, "text": self._hinted("text", "str")}
        slots |= {"n": self._literal("int"), "s": self._literal("str"), "helper": helper, "v": self._variable()}
        for form in forms:
            text += self._method((form,), name=self._named(self._words.method), **slots)
        if any("$helper" in form for form in forms):
            body = f"def {helper}(self, {second.name}):\n    return {second.name} or self.{second.name}\n"
            text += "\n" + textwrap.indent(body, "    ")
        self._calls.append((name, f"{name}({first.default})"))
        return text

    def _variable(self) -> str:
        return self._fresh(lambda random: random.choice(self._words.locals))

    def _caller(self) -> str:
        """Return a function that uses classes and functions of the file."""
        if not self._calls:
            return self._function()
        noun = self._one(self._words.entities)
        (used, call), (_, other) = self._random.choice(self._calls), self._random.choice(self._calls)
        argument = self._hinted(used.lower() + "s", f"list[{used}]") if used[0].isupper() else noun
        return self._filled(
            self._form(templates.CALLERS), name=self._fresh(self._words.function), argument=argument,
            v=self._variable(), call=call, other=other, noun=noun, n=self._literal("int"),
        )  # fmt: skip

    def _main(self) -> str:
        """Return the block that runs the file."""
        noun = self._one(self._words.entities)
        lines = []
        for used, call in self._random.sample(self._calls, min(len(self._calls), self._random.randint(1, 4))):
            left = self._one([noun, *self._words.locals])
            labelled = call if '"' in call else f'print("{used.lower()}:", {call})'
            lines.append(self._one([f"{left} = {call}", f"print({call})", labelled]))
        lines = lines or [f"for {noun} in range({self._literal('int')}):", f"    print({noun})"]
        return 'if __name__ == "__main__":\n' + "\n".join("    " + line for line in lines)
