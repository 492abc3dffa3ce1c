"""The results of steered retrieval: one query, and the mean over many."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from care.augment import COLOR_OPERATIONS, ImageParameters, ImagePolicy
from care.evaluate.comparison.paired import Difference
from care.steer.learned_rotation import LearnedRotation
from care.steer.retrieving import AUGMENTED, CHANCE, IDENTITY, LEARNED, SteeredRetrieval
from care.tables import paragraphs, text_table

WORDS = {IDENTITY: "f(q), identity", LEARNED: "R(θ) f(q), learned rotation", AUGMENTED: "f(a(q)), augmented"}
ROWS = {**WORDS, CHANCE: "chance"}
ALL_OF_THEM = 0.9995  # an overlap that is printed as 1.000


@dataclass(frozen=True)
class RetrievalResult:
    """Steered retrieval, measured: `print(result)`, `result.to_json()`.

    `one` is the query that is shown; `many` holds the `queries` over which means are taken. `notes` are caveats for the
    reader.
    """

    model: str
    output: str
    change: str
    query: str
    images: int
    k: int
    queries: int
    one: SteeredRetrieval
    many: SteeredRetrieval
    notes: Sequence[str] = ()

    def caption(self, way: str) -> str:
        """A way to query, with the measures of the one query."""
        means = {measure: self.one.mean(measure, way).difference for measure in self.one.units}
        known = (f"{measure.replace('_', ' ')} {v:.2f}" for measure, v in means.items() if not math.isnan(v))
        return f"{WORDS[way]}: {', '.join(known)}"

    def table(self) -> str:
        """Two tables: the one query, and the means with their intervals."""
        about = f"{self.model} ({self.output}): {self.change}; {self.k} of {self.images:,} images, query {self.query}"
        header = ("neighbors of", *(measure.replace("_", " ") for measure in self.one.units))
        rows = [(words, *(_mean(self.one.mean(m, way)) for m in self.one.units)) for way, words in ROWS.items()]
        means = [row for measure in self.many.units for row in self._means_of(measure)]
        return "\n\n".join(
            (
                paragraphs([about]) + text_table("", header, rows),
                text_table(f"the mean of {self.queries:,} queries", ("neighbors of", "measure", "mean", "95 %"), means),
            )
        )

    def _means_of(self, measure: str) -> list[tuple[str, str, str, str]]:
        """A row for every way to query, one below the other: side by side they are wider than a terminal."""
        name, gain = measure.replace("_", " "), self.many.gain(measure)
        found = {words: self.many.mean(measure, way) for way, words in ROWS.items()}
        rows = [(words, name, _mean(d), _interval(d)) for words, d in found.items()]
        return [*rows, ("R(θ) f(q) − f(q)", name, _mean(gain, "+"), _interval(gain, "+"))]

    def sentences(self) -> list[str]:
        """Whether the learned rotation finds more of the neighbors of f(a(q)) than the identity does, and the notes."""
        if self._does_not_react():
            same = "f(q) and f(a(q)) have the same neighbors, so there is nothing for R(θ) to find"
            return [f"the embedding does not react to {self.change}: {same}.", *self.notes]
        gain = self.many.gain("overlap")
        shares = (self.many.mean("overlap", way).difference for way in (LEARNED, IDENTITY))
        found = "the overlap with the neighbors of f(a(q)) is {:.3f} for R(θ) f(q) and {:.3f} for f(q)".format(*shares)
        unsure = "too few queries for an interval" if math.isnan(gain.low) else "the difference is not significant"
        sure = "a gain" if gain.low > 0 else "a loss" if gain.high < 0 else unsure
        return [f"{found}: {sure}.", *self.notes]

    def _does_not_react(self) -> bool:
        """Whether augmenting a query changes none of its neighbors, or hardly any, among images that have others."""
        kept, chance = (self.many.mean("overlap", way).difference for way in (IDENTITY, CHANCE))
        return kept >= ALL_OF_THEM > chance

    def __str__(self) -> str:
        return "\n\n".join([self.table(), paragraphs(self.sentences())])

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dump`."""
        names = ("model", "output", "change", "query", "images", "k", "queries")
        rows = {way: found[0].tolist() for way, found in self.one.neighbors.items()}
        many = _means(self.many)
        for measure in many:
            many[measure]["learned_rotation - identity"] = _known(self.many.gain(measure))
        about = {name: getattr(self, name) for name in names}
        one = {"found": rows, **_means(self.one)}
        return {**about, "one": one, "mean": many, "in_words": self.sentences()}


def rotation_caveats(rotation: LearnedRotation, policy: ImagePolicy, a: ImageParameters, split: str) -> list[str]:
    """Caveats: augmentations outside the range that R(θ) was fitted to, and images that it may have been fitted to."""
    theta, notes = rotation.coordinates(a)[0], []
    generators = rotation.generators[: len(rotation.names)]
    for name, value, A in zip(rotation.names, theta.tolist(), generators, strict=True):
        if value and not A.any():
            notes.append(
                f"R(θ) has no generator for {name}: {name} did not vary in the augmentations that it was fitted to."
            )
    for name in COLOR_OPERATIONS:
        away, most = getattr(a, name).item() - (name != "hue"), getattr(policy, name)
        if abs(away) > most + 1e-6:
            notes.append(f"{name} is changed by {away:+.3g}, but the policy changes it by at most {most:g}.")
    if split == "train":
        notes.append("R(θ) may have been fitted to these images: choose another split.")
    return notes


def _mean(d: Difference, sign: str = "") -> str:
    return "–" if math.isnan(d.difference) else f"{d.difference:{sign}.3f}"


def _interval(d: Difference, sign: str = "") -> str:
    """The interval, or – if there is none."""
    return "–" if math.isnan(d.low) or d.low == d.high else f"{d.low:{sign}.3f} to {d.high:{sign}.3f}"


def _means(found: SteeredRetrieval) -> dict[str, dict[str, Any]]:
    return {measure: {way: _known(found.mean(measure, way)) for way in ways} for measure, ways in found.units.items()}


def _known(d: Difference) -> Mapping[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in asdict(d).items()}
