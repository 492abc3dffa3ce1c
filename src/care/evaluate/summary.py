"""An evaluation as tables of text."""

from collections.abc import Mapping
from typing import Any

from care.evaluate.decoding.decode import RECORDED
from care.evaluate.decoding.few_images import too_few_images
from care.evaluate.evaluation import Evaluation, has_top5, logistic_name, probe_name
from care.evaluate.features.classification import WHITENED
from care.tables import paragraphs, text_table


def summary(evaluation: Evaluation) -> str:
    """Classification, geometry of every output, prediction, retrieval and decoding, a table each."""
    measured = [evaluation.measurement(output).table() for output in evaluation.outputs]
    parts = [
        _classification(evaluation),
        *measured,
        _prediction(evaluation),
        _retrieval(evaluation),
        _decoding(evaluation),
    ]
    return "\n\n".join(part for part in parts if part)


def _classification(evaluation: Evaluation) -> str:
    about, logistic, probe, knn = (evaluation.record[name] for name in ("about", "logistic", "probe", "knn"))
    title = f"{about['model']} on {about['data']} ({about['test_images']:,} {about['split']} images)"
    rows = []
    if logistic is not None:
        words = f"{logistic_name(logistic)}, penalty {logistic['penalty']:.3g}"
        words += "" if logistic["converged"] else ", not converged"
        rows.append((words, f"{100 * logistic['accuracy']:.2f} %", ""))
    if probe is not None:
        top5 = sum(probe["top5"]) / len(probe["top5"])
        top1 = f"{100 * probe['mean']:.2f} ± {100 * probe['std']:.2f} %"
        words = f"{probe_name(evaluation.record)}, {probe['on']}, {len(probe['top1'])} seeds"
        rows.append((words, top1, f"{100 * top5:.2f} %"))
    outputs = {WHITENED: evaluation.record.get("knn_whitened") or {}, **(evaluation.record.get("knn_outputs") or {})}
    by_output = {"": knn or {}} | {f", {name}": by for name, by in outputs.items()}
    neighbors = [(k, output, accuracy) for output, by in by_output.items() for k, accuracy in by.items()]
    rows += [(f"kNN, k = {k}{output}", f"{100 * accuracy:.2f} %", "") for k, output, accuracy in neighbors]
    if not rows:
        labeled = "one class" if about.get("train_classes") == 1 else "no labels"
        why = labeled if about["train_images"] else "no split train"
        return paragraphs([f"{title}: {why}, so no probe and no kNN"])
    shown = 3 if has_top5(evaluation.record) else 2
    return text_table(title, ("classifier", "top-1", "top-5")[:shown], [row[:shown] for row in rows])


def _prediction(evaluation: Evaluation) -> str:
    header = ("output and family", "predicted by", "MRR", "H@1", "H@5", "PRE")
    rows = [
        (where, name, *(_number(scores[measure]) for measure in ("mrr", "hit_at_1", "hit_at_5", "parameter_error")))
        for where, by in evaluation.record["prediction"].items()
        for name, scores in by.items()
    ]
    return text_table("finding the augmented view of an image from f(x)", header, rows) if rows else ""


def _retrieval(evaluation: Evaluation) -> str:
    found: Mapping[str, Mapping[str, Any]] = evaluation.record["retrieval"] or {}
    header = (
        "5 nearest neighbors",
        "hue distance",
        "without jitter",
        "chance",
        "overlap",
        "class precision",
    )
    names = ("hue_distance", "hue_distance_before", "hue_distance_chance", "overlap", "class_precision")
    rows = [(output, *(_number(r[name]) for name in names)) for output, r in found.items()]
    return text_table("retrieval after color jitter", header, rows) if rows else ""


def _decoding(evaluation: Evaluation) -> str:
    parts = []
    from_pairs = "R² of augmentation parameters, decoded from pairs (h(x), h(a(x)))"
    by_row = {
        from_pairs: {f"{{}}, {decoder}": recorded for decoder, recorded in RECORDED.items()},
        "R² of generative factors, decoded from h(x)": {"{}": "factors"},
    }
    for title, recorded in by_row.items():
        found: Mapping[str, Mapping[str, float | None]] = {
            words.format(output): r2
            for output in evaluation.outputs
            for words, name in recorded.items()
            if (r2 := (evaluation.record.get(name) or {}).get(output))
        }
        names = list(next(iter(found.values()), {}))
        if names:
            rows = [(where, *(_number(r2[name]) for name in names)) for where, r2 in found.items()]
            few = too_few_images(title, evaluation.record["about"]["test_images"])
            parts.append(paragraphs([few]) if few else text_table(title, ("", *names), rows))
    return "\n\n".join(parts)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
