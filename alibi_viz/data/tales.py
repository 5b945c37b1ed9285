"""Write small tales and record what they tell and where they recall it.

A tale has a hero, a friend and one to four plots: something is hidden, promised, lent, or told in
secret. At the end it is found, kept, given back or needed. What a tale says about them (a name, an
animal, a color, a place) is a *fact*. It has one of 16 values, so a reader who has forgotten it
needs about 4 bits to guess it. For each place where a fact comes back we record where it was last
told. So recall can be measured by distance, in ordinary prose.

The words and sentences are in `tales.toml`. All random numbers come from
`random.Random(seed).random()`, which Python promises never to change, and no function is applied to
them that differs between platforms. So a seed gives one text.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# Bytes from a recalled fact back to where it was last told. Other distances are not recorded.
SHORTEST = 16
LONGEST = 2000
# The shortest and the longest tale.
TALE_BYTES = (360, 2900)
# In `tales.toml`, each plot has a part of that name and one that ends it, such as "lost_end".
PLOTS = ("lost", "promise", "loan", "secret")
# About as long as what ends a plot, or a tale.
ENDING_BYTES = 90
# How many sentences to choose from, so that facts come back after each distance about equally
# often.
CANDIDATES = 8
PRONOUNS = {"he": "she", "his": "her", "him": "her"}
# A gap in a sentence, such as {hero}, {new spot}, {a color}, {spot noun}, {hero He} or {~time}.
SLOT = re.compile(r"\{(?:(a|new) )?([^{}]+?)(?: (noun|[Hh]e|[Hh]is|[Hh]im))?\}")
TALE_WORD = re.compile(r"\b\w+\b")


class Recall(NamedTuple):
    """A place where a tale recalls a fact, in bytes from the start of the text."""

    start: int
    stop: int
    told: int  # the start of the last mention before it
    distance: int  # start - told
    kind: str  # what is recalled: "hero", "hero animal", "color", ...


class Mention(NamedTuple):
    """A name, animal, place or thing of the tales in a text, as character positions."""

    start: int
    stop: int
    kind: str  # "name", "animal", "place" or "thing"
    value: str


class Slot(NamedTuple):
    """A gap in a sentence."""

    before: str  # the text between the gap before and this one
    # A fact such as "hero" or "hero animal", a list of words such as "~time", or "" at the end
    name: str
    # "a" for an article, "new" for another value, "noun" of a place, or a pronoun such as "he"
    form: str


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence of `tales.toml`, equal to itself only, so that a dict finds it at once."""

    slots: tuple[Slot, ...]
    needs: frozenset[str]  # the facts that must have been told
    recalls: frozenset[str]  # those among them that it names
    subject: str  # the person whom a pronoun refers to before the sentence names one, or ""


def write_tales(size: int, seed: int, variety: int | None = None) -> tuple[str, list[Recall]]:
    """Whole tales of at least `size` bytes together, in ASCII, and where they recall a fact.

    The recalls are in the order of the text. With `variety`, at least 4, the tales have only so
    many values of each fact, words of each list, and sentences of each part, and three times as
    many in the middle: easier to learn for a model that has little time.

    >>> from alibi_viz.data.tales import write_tales
    >>> text, recalls = write_tales(1000, seed=1)
    >>> text[:29], text[recalls[0].start : recalls[0].stop]
    ('This is the story of Emma, a ', 'Leo')
    """
    writer = _Writer(Random(seed), variety)
    while writer.length < size:
        writer.write_tale()
    return "".join(writer.pieces), writer.recalls


def mentions(text: str) -> list[Mention]:
    """The names, animals, places and things of the tales in a text, in its order.

    A text that isn't one of the tales has few or none.
    """
    facts = _world()["facts"]
    kinds = dict.fromkeys(facts["female"] + facts["male"], "name")
    kinds |= dict.fromkeys(facts["animal"], "animal")
    kinds |= dict.fromkeys(facts["thing"], "thing")
    kinds |= dict.fromkeys((_noun(place) for place in facts["place"]), "place")

    found = []
    for match in TALE_WORD.finditer(text):
        word = match.group()
        if word in kinds:
            found.append(Mention(match.start(), match.end(), kinds[word], word))
    return found


def retell(context: str, value: str) -> str:
    """The context as if the fact had another value: "Leo" becomes another boy's name everywhere.

    `value` is what a fact's bytes say. The new value is the next one of its kind that the context
    doesn't have. Raises ValueError for a value that no tale tells.
    """
    values, index = _find_value(value)
    old = values[index]
    new = values[index - 1]  # if the context has them all
    for candidate in values[index:] + values[:index]:
        if _noun(candidate) not in context:
            new = candidate
            break
    # Places first with their preposition, then without it.
    context = re.sub(rf"\b{old}\b", new, context)
    return re.sub(rf"\b{_noun(old)}\b", _noun(new), context)


def _find_value(value: str) -> tuple[list[str], int]:
    """All values of one kind, and the index of this one among them."""
    for values in _world()["facts"].values():
        for index, known in enumerate(values):
            # A place is also recalled without its preposition: "mill" is "behind the mill".
            if known == value or known.endswith(f" {value}"):
                return values, index
    raise ValueError(f"value must be one that the tales tell, got {value!r}")


def _noun(value: str) -> str:
    """The last word of a value: "mill" of "behind the mill", and "Leo" of "Leo"."""
    return value.rsplit(maxsplit=1)[-1]


@cache
def _world() -> dict[str, Any]:
    return tomllib.loads((files("alibi_viz.data") / "tales.toml").read_text(encoding="utf-8"))


@cache
def _sentences(part: str) -> list[Sentence]:
    return [_parse(line) for line in _world()["sentences"][part].strip().splitlines()]


def _parse(line: str) -> Sentence:
    slots = []
    end = 0  # of the gap before
    for gap in SLOT.finditer(line):
        form_before, name, form_after = gap.groups()
        slots.append(Slot(line[end : gap.start()], name, form_before or form_after or ""))
        end = gap.end()
    slots.append(Slot(line[end:], "", ""))

    needs = set()
    recalls = set()
    for slot in slots:
        is_fact = slot.name != "" and not slot.name.startswith("~")
        if is_fact:
            needs.add(slot.name)
            if slot.form.lower() not in ("new", *PRONOUNS):
                recalls.add(slot.name)

    subject = ""
    persons = [slot for slot in slots if _world()["roles"].get(slot.name) == "person"]
    if persons and persons[0].form.lower() in PRONOUNS:
        subject = persons[0].name
    return Sentence(tuple(slots), frozenset(needs), frozenset(recalls), subject)


class _Writer:
    """Writes tales one after the other."""

    def __init__(self, random: Random, variety: int | None) -> None:
        self._random = random.random
        self._variety = variety
        self.pieces: list[str] = []
        self.length = 0  # of all pieces
        self.recalls: list[Recall] = []
        self._recalled: Counter[int] = (
            Counter()
        )  # recalls by the bits of their distance, its octave

        # Of the tale that is being written, see `_cast`:
        self._values: dict[str, str] = {}  # what each fact is
        self._is_female: dict[str, bool] = {}  # for each person
        self._told: dict[str, int] = {}  # where each fact was last told
        self._used: dict[Sentence, None] = {}  # in the order of their use
        self._last_person = ""  # whom a pronoun would refer to

    def write_tale(self) -> None:
        """Write one whole tale after the others."""
        self._cast()
        size = self._tale_bytes()
        end = self.length + size
        plots = self._draw(PLOTS, 1 + size // 800)

        self._write(self._pick(self._sentences("opening")))
        self._write(self._pick(self._sentences("friend")))
        for plot in plots:
            if plot == "secret":
                self._write(self._pick(self._sentences("elder")))
            self._write(self._choose(plot))

        endings = ENDING_BYTES * (len(plots) + 1)
        while self.length + endings < end:
            self._write(self._choose("middle"))

        for plot in self._draw(plots, len(plots)):
            self._write(self._choose(f"{plot}_end"))
        self._write(self._choose("ending"), separator="\n\n")

    def _tale_bytes(self) -> int:
        """A length whose logarithm is spread evenly, drawn by rejection."""
        shortest, longest = TALE_BYTES
        while True:
            length = shortest + self._random() * (longest - shortest)
            if self._random() * length < shortest:
                return int(length)

    def _cast(self) -> None:
        """Decide what the facts of a new tale are.

        Those of one kind differ, such as the names of its persons.
        """
        facts = {kind: values[: self._variety] for kind, values in _world()["facts"].items()}
        roles = _world()["roles"]
        persons = [role for role, kind in roles.items() if kind == "person"]

        names = self._draw(facts["female"] + facts["male"], len(persons))
        self._values = dict(zip(persons, names, strict=True))
        self._is_female = {person: name in facts["female"] for person, name in self._values.items()}
        for kind in ("animal", "trait"):
            drawn = self._draw(facts[kind], len(persons))
            for person, value in zip(persons, drawn, strict=True):
                self._values[f"{person} {kind}"] = value
        for kind in ("place", "thing", "color", "food", "word"):
            of_kind = [role for role in roles if roles[role] == kind]
            drawn = self._draw(facts[kind], len(of_kind))
            self._values |= zip(of_kind, drawn, strict=True)

        self._told = {}
        self._used = {}
        self._last_person = ""

    def _sentences(self, part: str) -> list[Sentence]:
        """The sentences of a part that the variety allows."""
        sentences = _sentences(part)
        if self._variety is None:
            return sentences
        allowed = 3 * self._variety if part == "middle" else self._variety
        return sentences[:allowed]

    def _choose(self, part: str) -> Sentence:
        """A sentence that can be said now.

        It recalls facts from distances that have been rare so far.
        """
        possible = self._possible(part)
        while not possible:
            # A long tale has used them all: those that were used long ago may come again. This
            # ends, because each part has a sentence that needs only what every tale has told.
            self._used = dict.fromkeys(list(self._used)[len(self._used) // 2 :])
            possible = self._possible(part)
        candidates = [self._pick(possible) for _ in range(CANDIDATES)]
        # The first of those that are equally rare, each looked at once
        return min(dict.fromkeys(candidates), key=self._how_common)

    def _possible(self, part: str) -> list[Sentence]:
        """The unused sentences of a part that need no fact or person that is still unknown."""
        starts_a_plot = part in PLOTS  # such sentences tell the facts that they need
        possible = []
        for sentence in self._sentences(part):
            is_understood = starts_a_plot or sentence.needs <= self._told.keys()
            follows = sentence.subject in ("", self._last_person)
            if is_understood and follows and sentence not in self._used:
                possible.append(sentence)
        return possible

    def _how_common(self, sentence: Sentence) -> float:
        """How often facts were recalled from such distances before; 1 is the mean."""
        octaves = []
        for name in sentence.recalls & self._told.keys():
            distance = self.length - self._told[name]
            if distance <= LONGEST:
                octaves.append(max(distance, SHORTEST).bit_length())
        if not octaves or not self._recalled:
            return 1.0
        mean = self._recalled.total() / len(self._recalled)
        return sum(self._recalled[octave] for octave in octaves) / len(octaves) / mean

    def _write(self, sentence: Sentence, separator: str = "") -> None:
        """Write a sentence, and a space or a new line after it."""
        used_words: set[str] = set()  # so that no word comes twice
        for slot in sentence.slots:
            self._add(slot.before)
            if slot.name.startswith("~"):
                self._add_word(slot, used_words)
            elif slot.form.lower() in PRONOUNS:
                self._add_pronoun(slot)
            elif slot.name:
                self._tell(slot)

        if not separator:
            separator = "\n" if self._random() < 0.2 else " "
        self._add(separator)
        self._used[sentence] = None

    def _add_word(self, slot: Slot, used_words: set[str]) -> None:
        """Write a word of a list that the sentence doesn't have yet."""
        words = _world()["words"][slot.name.removeprefix("~")][: self._variety]
        word = self._pick([word for word in words if word not in used_words])
        used_words.add(word)
        if slot.form == "a":
            self._add(_article(word))
        self._add(word)

    def _add_pronoun(self, slot: Slot) -> None:
        """Write the pronoun of a person, "He" or "She" at the start of a sentence."""
        pronoun = slot.form.lower()
        if self._is_female[slot.name]:
            pronoun = PRONOUNS[pronoun]
        if slot.form[0].isupper():
            pronoun = pronoun.capitalize()
        self._add(pronoun)
        self._last_person = slot.name

    def _tell(self, slot: Slot) -> None:
        """Write the value of a fact. Record it if it was told before."""
        if slot.form == "new":
            places = _world()["facts"]["place"][: self._variety]
            free = [place for place in places if place not in self._values.values()]
            self._values[slot.name] = self._pick(free)
        value = self._values[slot.name]

        if slot.form == "a":
            self._add(_article(value))
        start = self.length
        self._add(_noun(value) if slot.form == "noun" else value)

        is_recalled = slot.name in self._told and slot.form != "new"
        if is_recalled:
            told = self._told[slot.name]
            distance = start - told
            if SHORTEST <= distance <= LONGEST:
                self.recalls.append(Recall(start, self.length, told, distance, slot.name))
                self._recalled[distance.bit_length()] += 1
        self._told[slot.name] = start
        if slot.name in self._is_female:
            self._last_person = slot.name

    def _add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def _pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def _draw(self, items: Sequence[T], count: int) -> list[T]:
        """Up to `count` different items in random order."""
        left = list(items)
        number = min(count, len(left))
        return [left.pop(int(self._random() * len(left))) for _ in range(number)]


def _article(word: str) -> str:
    return "an " if word[0] in "aeiou" else "a "
