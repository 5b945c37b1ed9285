"""Write small tales, any number of them, and record what they tell and where they recall it.

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
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

SHORTEST, LONGEST = (
    16,
    2000,
)  # bytes from a recalled fact back to where it was last told; others are not recorded
TALE_BYTES = (360, 2900)
PLOTS = (
    "lost",
    "promise",
    "loan",
    "secret",
)  # in `tales.toml`, each has a part of that name and one that ends it
ENDING_BYTES = 90  # about as long as what ends a plot, or a tale
CANDIDATES = (
    8  # sentences to choose from, so that facts come back after each distance about equally often
)
PRONOUNS = {"he": "she", "his": "her", "him": "her"}
SLOT = re.compile(r"\{(?:(a|new) )?([^{}]+?)(?: (noun|[Hh]e|[Hh]is|[Hh]im))?\}")
WORD = re.compile(r"\b\w+\b")


class Fact(NamedTuple):
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


class Sentence(NamedTuple):
    """A sentence of `tales.toml`."""

    slots: tuple[Slot, ...]
    needs: frozenset[str]  # the facts that must have been told
    recalls: frozenset[str]  # those among them that it names
    subject: str  # the person whom a pronoun refers to before the sentence names one, or ""


def write_tales(size: int, seed: int, variety: int | None = None) -> tuple[str, list[Fact]]:
    """Whole tales of at least `size` bytes together, in ASCII, and the facts they recall, in the
    order of the text.

    With `variety`, at least 4, the tales have only so many values of each fact, words of each list,
    and sentences of each part, and three times as many in the middle: easier to learn for a model
    that has little time.
    """
    writer = _Writer(Random(seed), variety)
    while writer.length < size:
        writer.write_tale()
    return "".join(writer.pieces), writer.facts


def mentions(text: str) -> list[Mention]:
    """The names, animals, places and things of the tales in a text, in its order; few or none in
    another text."""
    facts = _world()["facts"]
    values = {
        "name": facts["female"] + facts["male"],
        "animal": facts["animal"],
        "thing": facts["thing"],
    }
    values["place"] = [place.split()[-1] for place in facts["place"]]
    kinds = {value: kind for kind, names in values.items() for value in names}
    return [
        Mention(*match.span(), kinds[match[0]], match[0])
        for match in WORD.finditer(text)
        if match[0] in kinds
    ]


def retell(context: str, value: str) -> str:
    """The context as if the fact had another value: "Leo" becomes another boy's name everywhere.

    `value` is what a fact's bytes say. The new value is one of its kind that the context doesn't
    have.
    """
    for values in _world()["facts"].values():
        place = next((each for each in values if each == value or each.endswith(f" {value}")), None)
        if place is not None:
            start = values.index(place)
            others = [
                each for each in values[start:] + values[:start] if each.split()[-1] not in context
            ]
            other = others[0] if others else values[start - 1]
            context = re.sub(rf"\b{place}\b", other, context)  # with its preposition
            return re.sub(rf"\b{place.split()[-1]}\b", other.split()[-1], context)
    raise ValueError(f"value must be one that the tales tell, got {value!r}")


@cache
def _world() -> dict[str, Any]:
    return tomllib.loads((files("alibi_viz.data") / "tales.toml").read_text(encoding="utf-8"))


@cache
def _sentences(part: str) -> list[Sentence]:
    return [_parse(line) for line in _world()["sentences"][part].strip().splitlines()]


def _parse(line: str) -> Sentence:
    *gaps, end = SLOT.split(line)  # before each gap the text, then the groups of the pattern
    slots = [
        Slot(gap, name, first or last or "")
        for gap, first, name, last in zip(*[iter(gaps)] * 4, strict=True)
    ]
    slots.append(Slot(end, "", ""))
    needs = {slot.name for slot in slots if slot.name and slot.name[0] != "~"}
    recalls = {
        slot.name
        for slot in slots
        if slot.name in needs and slot.form.lower() not in ("new", *PRONOUNS)
    }
    persons = [slot for slot in slots if _world()["roles"].get(slot.name) == "person"]
    subject = persons[0].name if persons and persons[0].form.lower() in PRONOUNS else ""
    return Sentence(tuple(slots), frozenset(needs), frozenset(recalls), subject)


class _Writer:
    """Writes tales one after the other."""

    def __init__(self, random: Random, variety: int | None) -> None:
        self._random, self._variety = random.random, variety
        self.pieces: list[str] = []
        self.length = 0  # of all pieces
        self.facts: list[Fact] = []
        self._recalled: Counter[int] = Counter()  # facts by the bits of their distance, its octave

    def write_tale(self) -> None:
        self._cast()
        end = self.length + self._tale_bytes()
        plots = self._draw(PLOTS, 1 + (end - self.length) // 800)
        for part in ("opening", "friend"):
            self._write(self._pick(self._sentences(part)))
        for plot in plots:
            if plot == "secret":
                self._write(self._pick(self._sentences("elder")))
            self._write(self._choose(plot))
        while self.length + ENDING_BYTES * (len(plots) + 1) < end:
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
        """Decide what the facts of a new tale are. Those of one kind differ, such as the names of
        its persons."""
        facts = {kind: values[: self._variety] for kind, values in _world()["facts"].items()}
        roles = _world()["roles"]
        persons = [role for role, kind in roles.items() if kind == "person"]
        names = self._draw(facts["female"] + facts["male"], len(persons))
        self._values = dict(zip(persons, names, strict=True))
        self._is_female = {person: name in facts["female"] for person, name in self._values.items()}
        for kind in ("animal", "trait"):
            drawn = self._draw(facts[kind], len(persons))
            self._values |= {
                f"{person} {kind}": value for person, value in zip(persons, drawn, strict=True)
            }
        for kind in ("place", "thing", "color", "food", "word"):
            names = [role for role in roles if roles[role] == kind]
            self._values |= zip(names, self._draw(facts[kind], len(names)), strict=True)
        self._told: dict[str, int] = {}  # where each fact was last told
        self._used: list[Sentence] = []
        self._last_person = ""

    def _sentences(self, part: str) -> list[Sentence]:
        return _sentences(part)[: self._variety and self._variety * (3 if part == "middle" else 1)]

    def _choose(self, part: str) -> Sentence:
        """A sentence that can be said now. It recalls facts from distances that have been rare so
        far."""
        possible = [
            sentence
            for sentence in self._sentences(part)
            if (part in PLOTS or sentence.needs <= self._told.keys())
            and sentence not in self._used
            and sentence.subject in ("", self._last_person)
        ]
        if not possible:  # a long tale has used them all
            self._used = self._used[len(self._used) // 2 :]
            return self._choose(part)
        return min((self._pick(possible) for _ in range(CANDIDATES)), key=self._how_common)

    def _how_common(self, sentence: Sentence) -> float:
        """How often facts were recalled from such distances before, compared with the mean, which
        is 1."""
        distances = [
            self.length - self._told[name] for name in sentence.recalls if name in self._told
        ]
        octaves = [
            max(distance, SHORTEST).bit_length() for distance in distances if distance <= LONGEST
        ]
        if not octaves or not self._recalled:
            return 1.0
        mean = self._recalled.total() / len(self._recalled)
        return sum(self._recalled[octave] for octave in octaves) / len(octaves) / mean

    def _write(self, sentence: Sentence, separator: str = "") -> None:
        """Write a sentence, and a space or a new line after it."""
        words: set[str] = set()
        for slot in sentence.slots:
            self._add(slot.before)
            if slot.name[:1] == "~":
                known = _world()["words"][slot.name[1:]][: self._variety]
                word = self._pick([word for word in known if word not in words])
                words.add(word)
                self._add(_article(word) + word if slot.form == "a" else word)
            elif (form := slot.form.lower()) in PRONOUNS:
                pronoun = PRONOUNS[form] if self._is_female[slot.name] else form
                self._add(pronoun.capitalize() if slot.form[0].isupper() else pronoun)
                self._last_person = slot.name
            elif slot.name:
                self._tell(slot)
        self._add(separator or ("\n" if self._random() < 0.2 else " "))
        self._used.append(sentence)

    def _tell(self, slot: Slot) -> None:
        """Write the value of a fact. Record it if it was told before."""
        if slot.form == "new":
            places = _world()["facts"]["place"][: self._variety]
            self._values[slot.name] = self._pick(
                [place for place in places if place not in self._values.values()]
            )
        value = self._values[slot.name]
        if slot.form == "a":
            self._add(_article(value))
        start = self.length
        self._add(value.split()[-1] if slot.form == "noun" else value)
        told = self._told.get(slot.name, -1)
        if told >= 0 and slot.form != "new" and SHORTEST <= start - told <= LONGEST:
            self.facts.append(Fact(start, self.length, told, start - told, slot.name))
            self._recalled[(start - told).bit_length()] += 1
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
        return [left.pop(int(self._random() * len(left))) for _ in range(min(count, len(left)))]


def _article(word: str) -> str:
    return "an " if word[0] in "aeiou" else "a "
