"""Checks, defaults and embedders of `care steer`, which `care retrieve` shares."""

from pathlib import Path

import torch

from care.augment import PointPolicy, apply
from care.augment.coordinates import IMAGE_NAMES, POINT_NAMES
from care.cli.evaluation_setup import is_run
from care.data import Samples
from care.evaluate import Embedder, EvaluationSetup
from care.geometry import Euclidean
from care.objective import policy_for
from care.steer import LearnedRotation
from care.train.trained import Trained


def check_steered(setup: EvaluationSetup, second_order: bool) -> None:
    """ValueError if no rotation can be fitted to the embeddings of the setup."""
    if not isinstance(setup.form, Euclidean):
        raise ValueError("only embeddings on the sphere can be steered: the run was trained with another form")
    if second_order and isinstance(setup.policy, PointPolicy):
        raise ValueError("--second-order is for colors, and point clouds have none")


def trained_rotation(trained: Trained, output: str) -> LearnedRotation | None:
    """The rotation of this output that was trained with the encoder, if one was.

    Only the embedding has one, which acts on its first dimensions.
    """
    if trained.generators is None or output != "embedding":
        return None
    policy = policy_for(trained.config.equivariance_policy, trained.config.size)
    names = POINT_NAMES if isinstance(policy, PointPolicy) else IMAGE_NAMES
    basis = torch.eye(trained.config.embedding_dim, trained.generators.shape[1])
    return LearnedRotation(names, getattr(policy, "center", 1.0), basis, trained.generators)


def steering_folder(model: str, setup: EvaluationSetup) -> Path:
    """The default folder for the results: in the folder of a run, in the working directory for other models."""
    return Path(model) / "steering" if is_run(model) else Path(f"steering-{setup.model}")


def chosen_output(setup: EvaluationSetup, output: str | None) -> str:
    """The output that was asked for, or the default; ValueError if the model has no such output."""
    choices = outputs_of(setup)
    if output is not None and output not in choices:
        raise ValueError(f"--output must be one of {', '.join(choices)}, got {output}")
    return output or choices[0]


def outputs_of(setup: EvaluationSetup) -> tuple[str, ...]:
    """The names of the model's outputs, the default first."""
    few = setup.test.limit(2)
    views = apply(few.inputs.cpu(), setup.policy.unchanged(2, few.input_shape))  # type: ignore[arg-type]
    return tuple(setup.embed(views.to(setup.device)))


def steered_embedder(setup: EvaluationSetup, samples: Samples, output: str) -> Embedder:
    """Embeds `samples` by one output of the setup's model."""
    return Embedder(
        lambda inputs: {output: setup.embed(inputs)[output]},
        samples,
        setup.policy,
        setup.policy_name,
        setup.device,
        setup.batch_size,
    )
