"""The page of the full demo: the table, the verdicts on the claims, and the figures that explain them."""

from collections.abc import Mapping

from care import __version__
from care.demo.claims import CLAIMS, Verdict, judge
from care.demo.numbers import named, table, value
from care.demo.running import Found, Shown
from care.evaluate import figures
from care.evaluate.evaluation import Evaluation
from care.report import cosine_figure, orbit_figure, response_figure, training_figure
from care.report.page import Page, Picture, Points, Section

LEAD = (
    "A contrastive encoder such as SimCLR learns to be invariant to crops and color jitter. CARE adds an equivariance "
    "loss: an augmentation may move embeddings, but must move all of them by the same rotation. Both were just trained "
    "here, on generated pictures and on generated 3-D point clouds, and measured on held-out samples. The split "
    "embedding is not in the paper: InfoNCE trains its invariant part, the equivariance loss its equivariant part, "
    "which should rotate with the cloud or with the hue of the picture."
)


def story(found: Found, seconds: float) -> Page:
    """The page of a finished demo, which took so many seconds."""
    sections = [Section("The numbers", [table(found)]), _claims(found)]
    if "shapes" in found:
        sections += _shapes(_labeled(found["shapes"]))
    if "chains" in found:
        sections.append(_chains(_labeled(found["chains"])))
    sections.append(_training(found))
    footer = f"Made by care demo, version {__version__}, in {seconds / 60:.1f} minutes. {_trained(found)}"
    return Page("What CARE does, seen on this computer", LEAD, sections, footer)


def verdicts(data: str, encoders: Mapping[str, Shown]) -> list[Verdict]:
    """The claims about a data set, each with the verdict of the numbers."""
    simclr, claims = encoders["SimCLR"], [claim for claim in CLAIMS[data] if claim.of in encoders]
    return [judge(claim, value(simclr, claim.column), value(encoders[claim.of], claim.column)) for claim in claims]


def tally(judged: list[Verdict]) -> str:
    """How many of the claims are seen, in words."""
    seen = sum(verdict.seen is True for verdict in judged)
    return f"all {len(judged)} claims" if seen == len(judged) else f"{seen} of {len(judged)} claims"


def _claims(found: Found) -> Section:
    parts: list[str | Points] = []
    for data, encoders in found.items():
        judged = verdicts(data, encoders)
        parts.append(f"On {data}, {tally(judged)} are seen:")
        parts.append(Points([(verdict.mark, verdict.sentence) for verdict in judged]))
    parts.append(
        "This is one seed and a few minutes of training. The intervals are over samples and augmentations, not over "
        "seeds: care demo --seed 1 trains with another."
    )
    return Section("Is the claim seen?", parts)


def _labeled(encoders: Mapping[str, Shown]) -> dict[str, Shown]:
    return {named(name, shown): shown for name, shown in encoders.items()}


def _evaluations(encoders: Mapping[str, Shown]) -> dict[str, Evaluation]:
    return {name: shown.evaluation for name, shown in encoders.items()}


def _shapes(encoders: Mapping[str, Shown]) -> list[Section]:
    evaluations = _evaluations(encoders)
    drawn = figures(evaluations, {name: shown.log for name, shown in encoders.items()})
    families = Picture(
        response_figure({name: e.measurement(e.equivariant_output).values() for name, e in evaluations.items()}),
        "Held-out ratio, γ_f and other measures of each encoder for each family of augmentations.",
        "A dot per augmentation, a bar at their mean, and the mean beside it. Crop and flip are geometric; the other "
        "families are photometric.",
    )
    gallery = Picture(
        drawn["neighbors-backbone"],
        "Queries with color jitter, and their nearest test pictures in the features of each encoder.",
        "Each query has color jitter; beside it are its five nearest test pictures. Green frames mark its class. "
        f"{_retrieved(encoders)}",
    )
    cosines = Picture(
        cosine_figure({name: e.arrays[f"cosine/{e.equivariant_output}"] for name, e in evaluations.items()}),
        "Histograms of the cosine between the embeddings of a picture before and after an augmentation.",
        "Each line is one augmentation. A rotation that moves every embedding by the same angle has a narrow peak; a "
        "rotation in general need not. Variances are on the right.",
    )
    positives = Picture(
        drawn["positive-cosines"],
        "Histograms of the cosine between two augmented views of one picture, and its mean over the epochs.",
        "Two views of one picture. For an invariant encoder all cosines are 1; with CARE they need not be.",
    )
    return [
        Section("Shapes: which augmentations act as rotations?", [families]),
        Section("Shapes: what is retrieved after color jitter?", [gallery]),
        Section("Shapes: how far do embeddings move?", [cosines, positives]),
    ]


def _retrieved(encoders: Mapping[str, Shown]) -> str:
    """The mean distance in hue between neighbors and query, in words."""
    parts = []
    for name, shown in encoders.items():
        record = shown.evaluation.record["retrieval"]["backbone"]
        parts.append(f"{record['hue_distance']:.3f} for {name}")
    chance = next(iter(encoders.values())).evaluation.record["retrieval"]["backbone"]["hue_distance_chance"]
    measured = f"{', '.join(parts)}; by chance {chance:.3f}"
    return f"Mean distance of their hue from the query's, as a fraction of the hue circle: {measured}."


def _chains(encoders: Mapping[str, Shown]) -> Section:
    drawn = {name: shown.orbits for name, shown in encoders.items() if shown.orbits is not None}
    orbits = Picture(
        orbit_figure(drawn),
        "Orbits of the embeddings of six point clouds, each rotated through 360°, for each encoder.",
        "Six clouds, each rotated through 360°, in the plane in which their embeddings move most. Scales differ by "
        "panel. Where rotating the cloud rotates the embedding, orbits are circles, passed at the same speed.",
    )
    evaluations = _evaluations(encoders)
    measured = {name: e.measurement(e.equivariant_output).values() for name, e in evaluations.items()}
    responses = Picture(
        response_figure(measured),
        "Held-out ratio, composition error and other measures of each encoder for rotations of point clouds.",
        "A dot per rotation of the cloud. The composition error is that of two rotations in a row, predicted by the "
        "product of the two rotations that were fitted.",
    )
    return Section("Chains: rotations of point clouds", [orbits, responses])


def _training(found: Found) -> Section:
    pictures = [
        Picture(
            training_figure({named(name, shown): shown.log for name, shown in encoders.items()}),
            f"Losses and measures of each encoder on {data} over the epochs.",
            f"On {data}, after every epoch.",
        )
        for data, encoders in found.items()
    ]
    return Section("How training went", pictures, folded=True)


def _trained(found: Found) -> str:
    """The training settings, for reproduction."""
    words = []
    for data, encoders in found.items():
        config = next(iter(encoders.values())).config
        words.append(
            f"{data}: {config.model}, {config.epochs} epochs of {config.limit:,} samples, batch {config.batch_size}, "
            f"seed {config.seed}"
        )
    return "; ".join(words) + "."
