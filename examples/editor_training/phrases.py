"""How users say what they want."""

from random import Random

_RENAME = (
    "Rename the {what} {old} to {new}{place}", "Rename {what} {old} to {new}{place}", "Rename {old} to {new}{place}",
    "Change the name of the {what} {old} to {new}{place}", "Call the {what} {old} {new} instead{place}",
    "The {what} {old} should be called {new}{place}", "Rename the {what} {old} to {new}{place}",
    "{old} should be named {new}{place}", "Rename the {old} {what} to {new}{place}", "rename {old} to {new}{place}",
    "Replace the {what} name {old} with {new}{place}", "Rename {old} into {new}{place}",
)  # fmt: skip
_PHRASES: dict[str, tuple[str, ...]] = {
    "constant": (
        "Change {name} to {new}", "Set {name} to {new}", "Change {name} from {old} to {new}", "Make {name} {new}",
        "Change the value of {name} to {new}", "Change the constant {name} to {new}", "{name} should be {new}",
        "Set {name} to {new} instead of {old}", "Use {new} for {name}",
    ),
    "setting": (
        "Change {name}{place} to {new}", "Set {name}{place} to {new}", "Change {name}{place} from {old} to {new}",
        "Make {name} {new}", "Set the {name}{place} to {new}", "{name}{place} should be {new}",
        "Change the {name}{place} from {old} to {new}", "Use {new} for {name}", "Set {name} to {new} instead of {old}",
    ),
    "default": (
        "Change the default of {name} to {new}{place}", "Change the default value of {name} from {old} to {new}{place}",
        "Set the default of {name}{place} to {new}", "Make {new} the default of {name}{place}",
        "Let {name} default to {new}{place}", "The default of {name}{place} should be {new}",
    ),
    "text": (
        "Change the text {old} to {new}", "Replace the string {old} with {new}", "Change {old} to {new}",
        "Change the message {old} to {new}", "Replace {old} by {new}", "The text {old} should read {new}",
    ),
    "delete": (
        "Delete the {what} {name}", "Remove the {what} {name}", "Remove {name}", "Delete {name}",
        "Drop the {what} {name}",
        "Delete the {name} {what}", "The {what} {name} is not needed any more, remove it", "Get rid of {name}",
    ),
    "import": (
        "Add an import of {name}", "Import {name}", "Add the import {statement}", "Add {statement}",
        "Import the module {name}", "Add {statement} at the top", "Add the missing import of {name}",
    ),
    "from": (
        "Add {statement}", "Import {name} from {module}", "Add an import of {name} from {module}",
        "Add the import {statement}", "Add {statement} to the imports",
    ),
    "parameter": (
        "Add a parameter {name} with default {value} to {place}", "Add the parameter {assigned} to {place}",
        "Give {place} a parameter {name} with default {value}",
        "Add an argument {name} with the default {value} to {place}",
        "Add a {name} parameter (default {value}) to {place}", "Give {place} a new parameter {assigned}",
        "{place} should take a parameter {name} that defaults to {value}",
    ),
    "docstring": (
        "Add the docstring {text} to {name}", "Give {name} the docstring {text}", "Add a docstring to {name}: {text}",
        "Document {name} with {text}", "Add the one-line docstring {text} to the {what} {name}",
    ),
    "own_docstring": (
        "Add a one-line docstring to {name}", "Add a docstring to the {what} {name}",
        "Give {name} a one-line docstring",
        "Document {name} with a one-line docstring", "Add a one-line docstring to the {what} {name}",
    ),
    "hints": (
        "Add type hints to {name}", "Add type hints to the {what} {name}", "Annotate {name}",
        "Add type annotations to {name}", "Add types to the parameters and the result of {name}",
    ),
    "all_hints": (
        "Add type hints", "Add type hints to all functions", "Add type annotations", "Add the missing type hints",
    ),
    "sum": (
        "Use sum() in {name}", "Replace the loop in {name} with sum()", "Turn the loop in {name} into a sum()",
        "Simplify {name} with sum()", "Rewrite the loop in {name} as a call of sum",
        "Use the built-in sum in {name} instead of a loop",
    ),
    "logging": (
        "Replace print with logging", "Use logging instead of print", "Replace the print calls with logging.info",
        "Use logging.info instead of print", "Log instead of printing", "Turn the prints into logging.info calls",
        "Replace print() by logging.info()",
    ),
    "above": (
        "Move {name} above {other}", "Move the {what} {name} before {other}", "Put {name} before {other}",
        "Move {name} up, in front of {other}", "Place {name} above {other}",
    ),
    "below": (
        "Move {name} below {other}", "Move the {what} {name} after {other}", "Put {name} after {other}",
        "Place {name} behind {other}", "Move {name} down, below {other}",
    ),
    "end": (
        "Move {name} to the end", "Move the {what} {name} to the end of the file", "Put {name} last",
        "Move {name} to the bottom",
    ),
    "sort": (
        "Sort the functions by name", "Sort the functions alphabetically",
        "Put the functions into alphabetical order",
    ),
}  # fmt: skip
_PLACES = (" in {}", " in the function {}", " of {}", " of {}", " in {}")
_SECTIONS = (" in {}", " of {}", " in the section {}", " under {}")
_EVERYWHERE = (" everywhere", "", " in the whole file", " in all functions", " everywhere in the file")


def say(random: Random, form: str, **slots: str | None) -> str:
    """Return one of the ways to say it.

    Args:
        random: Source of the choice.
        form: What is said, a key of the phrases.
        slots: What it is said of; `what` is a noun, and `place` may be a name, None or `*` for everywhere.
    """
    mark = random.choice(["", "", "", "", "`", "`", '"', "'"])
    if form == "rename":
        text = random.choice(_RENAME if slots["what"] else [p for p in _RENAME if "{what}" not in p])
        slots["place"] = _place(random, slots["place"], mark)
    else:
        text = random.choice(_PHRASES[form])
        if form in ("default", "setting"):
            slots["place"] = _place(random, slots["place"], mark, _SECTIONS if form == "setting" else _PLACES)
        elif form == "parameter":
            slots["place"] = quoted(slots["place"], mark)
    plain = ("what", "place", "text", "value")
    starts_with_word = not text.startswith("{")
    text = text.format(**{key: value if key in plain else quoted(value, mark) for key, value in slots.items()})
    if starts_with_word and random.random() < 0.25:
        text = random.choice(["", "Please ", "Can you "]) + text[0].lower() + text[1:]
    return text + ("." if random.random() < 0.25 else "")


def quoted(text: str | None, mark: str) -> str:
    """Return a name in the given quotes, unless it has some already."""
    return str(text) if mark and text and text[0] in "\"'`" else f"{mark}{text}{mark}"


def _place(random: Random, place: str | None, mark: str, places: tuple[str, ...] = _PLACES) -> str:
    if place is None:
        return ""
    if place == "*":
        return random.choice(_EVERYWHERE)
    is_class = place.strip("_")[0].isupper()
    forms = (" in {}", " of {}", " in the class {}", " of the class {}") if is_class else places
    return random.choice(forms).format(quoted(place, mark))
