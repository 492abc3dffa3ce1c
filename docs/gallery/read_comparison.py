"""
Read a comparison
=================

Which of two encoders is better, at what, and is the difference certain? Both are measured on the same pictures under
the same augmentations, so that differences are paired. "Yes" marks a difference that is certain after Holm's correction
for all differences of the table.
"""

from pathlib import Path
from tempfile import mkdtemp

from care.evaluate import EvaluationSettings, compare_evaluations, evaluate_model
from care.pretrained import run_setup
from care.report import differences_figure
from care.train import default_config, prepare, train

work, evaluations = Path(mkdtemp()), {}
shared = {
    "model": "small_resnet", "size": 24, "embedding_dim": 64, "head_width": 256, "temperature": 0.2, "limit": 2000,
    "epochs": 3, "batch_size": 128, "learning_rate": 3e-3, "schedule": "cosine", "device": "cpu",
}  # fmt: skip
for name, settings in {"SimCLR": {}, "CARE": {"equivariance": "care", "care_weight": 4.0, "chunks": 4}}.items():
    config = default_config("shapes", **shared, **settings)
    job = prepare(config, work / name)
    train(job)
    setup = run_setup(work / name, config, job.samples, job.heldout)
    evaluations[name] = evaluate_model(setup, EvaluationSettings(images=400, augmentations=4, probe="none"))

# %%
# On the command line: ``care evaluate`` for each run, then ``care compare runs/simclr runs/care``.

comparison = compare_evaluations(evaluations)
rows = comparison.rows("CARE")
for name, difference, low, high, _, certain in rows:
    if certain or "probe" in name:
        print(f"{name}: {difference:+.3f} [{low:+.3f}, {high:+.3f}], {'yes' if certain else 'undecided'}")

# %%
# Right is better. Green and red differences are certain; gray ones are undecided, which does not mean equal. Intervals
# are over pictures, or over pictures and augmentations together, for one pretraining seed per encoder. To learn about
# other seeds, train several.

shown = [row for row in rows if row[-1] or "probe" in row[0]]
figure = differences_figure(shown[:16], "CARE against SimCLR: what is certain, and the accuracy")
