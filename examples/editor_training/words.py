"""The vocabulary of generated files: what training may use, and what is held out."""

import hashlib
from dataclasses import dataclass, fields
from random import Random

_ENTITIES = """book member ticket invoice customer employee student course vehicle recipe chore song album movie player
team match flight passenger room booking device sensor message account payment project parcel patient doctor plant
animal planet robot letter garden bridge camera event guest hotel image journal kernel lamp meal note office page
queue river ship street train user village window worker zone badge cell chart client contract driver expense folder
game house island job key lesson machine node option packet question route server token unit visit widget yard boat
tower branch coin crate desk engine grid house icon jacket kettle ladder mirror nest orbit pixel ring
signal tunnel valve wallet author poem shelf track voucher bucket beacon battery cable"""
_CONTAINERS = """library registry catalog archive ledger roster fleet depot playlist calendar directory cabinet pool hub
tracker planner manager station museum school clinic gallery market bakery factory harbor airport office studio
theater club league network cluster store vault board diary atlas notebook workshop kitchen campus arena"""
_VERBS = """load save parse render format build count merge split filter collect update remove create validate convert
compute resolve encode decode open close start stop send publish schedule assign enroll cancel archive restore promote
compare measure rotate scale shift trim wrap fetch store read write scan check print sort group index assemble adjust
estimate predict normalize inspect deliver dispatch lock unlock register attach detach extend reduce refresh select"""
_INT = """age weight level capacity offset depth rank retries attempts width height score pages seats floor year port
priority size length distance speed batch volume wheels hours days points workers rooms votes copies stars rows"""
_STR = """label title city email owner color street country code phone language topic prefix suffix status category
comment host brand region format genre family origin sender subject alias motto flavor season material dialect"""
_FLOAT = "ratio rate balance salary temperature discount latitude longitude share cost fee margin altitude density gain"
_BOOL = "active visible enabled verified hidden locked ready urgent public archived broken expired paid signed optional"
_ADJECTIVES = "new old fast raw final local remote main extra early late known small large common simple safe current"
_LOCALS = """value entry result found current part chunk row data pair best last left right rest buffer message text
match node step amount record candidate element piece cursor outcome payload"""

# Identifiers of examples/inventory.py, on which the trained editor is shown: no generated file has one.
_SHOWN = """OutOfStockError Item sku name price quantity tags total Inventory reorder_level items _items item add get
receive units ship low_stock find tag report inventory lines stock"""
SHOWN = frozenset(_SHOWN.split())


@dataclass(frozen=True, slots=True)
class Words:
    """Words to name things with; the held-out ones share none with those for training."""

    entities: list[str]
    containers: list[str]
    verbs: list[str]
    ints: list[str]
    strings: list[str]
    floats: list[str]
    bools: list[str]
    adjectives: list[str]
    locals: list[str]

    def some(self, random: Random, share: float) -> "Words":
        """Return about such a share of each list: names resemble one another more, so that copies are harder."""
        lists = (getattr(self, field.name) for field in fields(self))
        return Words(*(random.sample(words, max(1, round(len(words) * share))) for words in lists))

    def function(self, random: Random) -> str:
        """Return a function's name, such as `parse_ticket`."""
        noun = random.choice(self.entities)
        verb = random.choice(self.verbs)
        return random.choice([f"{verb}_{noun}", f"{verb}_{noun}s", f"{verb}_{random.choice(self.adjectives)}_{noun}"])

    def method(self, random: Random) -> str:
        """Return a method's name, such as `assign` or `is_active`."""
        verb = random.choice(self.verbs)
        longer = [verb + "_all", f"{verb}_{random.choice(self.entities)}", self.function(random)]
        return random.choice([verb, verb, *longer])

    def klass(self, random: Random) -> str:
        """Return a class's name, such as `TicketQueue`."""
        entity, container = random.choice(self.entities).title(), random.choice(self.containers).title()
        return random.choice([entity, container, entity + container, random.choice(self.adjectives).title() + entity])

    def variable(self, random: Random) -> str:
        """Return a name for a variable, parameter or attribute."""
        plain = random.choice(random.choice([self.ints, self.strings, self.floats, self.entities, self.locals]))
        longer = [f"{random.choice(self.adjectives)}_{plain}", f"{plain}_{self.noun(random)}"]
        return random.choice([plain, plain, *longer])

    def noun(self, random: Random) -> str:
        """Return any noun."""
        return random.choice(random.choice([self.entities, self.strings, self.ints]))

    def sentence(self, random: Random, noun: str = "") -> str:
        """Return a docstring, about the noun if one is given."""
        noun = noun or self.noun(random)
        verb, other = random.choice(self.verbs), random.choice(self.entities)
        forms = (
            f"{verb.capitalize()} the {noun} of the {other}.",
            f"Return the {noun} of this {other}.",
            f"{verb.capitalize()} every {other} that has a {noun}.",
            f"{random.choice(self.adjectives).capitalize()} {other}s with their {noun}.",
            f"Return whether the {other} has a {noun}.",
            f"All {noun}s of a {other}, by {self.noun(random)}.",
        )
        return random.choice(forms)


def is_held_out(word: str) -> bool:
    """Whether a word, or a module of the standard library, is kept from training: one in six, by its digest."""
    return hashlib.sha256(word.lower().encode()).digest()[0] % 6 == 0


def words(held_out: bool) -> Words:
    """Return the words for training, or the held-out ones.

    Example:
        >>> set(words(True).verbs) & set(words(False).verbs)
        set()
    """
    lists = (_ENTITIES, _CONTAINERS, _VERBS, _INT, _STR, _FLOAT, _BOOL, _ADJECTIVES, _LOCALS)
    kept = [{word for word in text.split() if is_held_out(word) == held_out} for text in lists]
    chosen = [sorted(word for word in some if not SHOWN & {word, word + "s"}) for some in kept]
    return Words(*chosen)
