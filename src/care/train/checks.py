"""What is checked before training: that a network fits the data, and a checkpoint the configuration."""

import torch

from care.augment.naming import POINT_POLICY
from care.data import Samples
from care.models import Encoder, checkpoint_activations, describe_stem
from care.models.timm_models import MISFITS, output_width
from care.objective import build_encoder, build_objective
from care.train import checkpoint
from care.train.config import Config
from care.train.initial import initial_encoder
from care.train.runs import Run, view_shape


def check_unchanged(run: Run, samples: Samples) -> None:
    """ValueError if all checkpoints are damaged, or if config.toml or the data have changed since the last one."""
    saved = checkpoint.load_latest(run.checkpoints)
    if saved is None:
        return
    if different := run.config().obstacles(Config.from_toml(saved.state["config"])):
        file = run.folder / "config.toml"
        raise ValueError(
            f"{file} was changed since {saved.path.name} was saved, change it back: {'; '.join(different)}"
        )
    if saved.state["data"] != samples.digest():
        raise ValueError(f"{samples.name} is not what {run.folder} was trained on: begin a new run with another `out`")


def check_objective(config: Config, input_shape: tuple[int, ...], begins: bool = True, processes: int = 1) -> None:
    """ValueError for an unknown network or one that does not fit the data, or if the objective cannot be built for it.

    If the run begins with `init`, ValueError also if these weights do not fit the network.
    """
    _check_policies(config, clouds=len(input_shape) == 1)
    view = view_shape(config, input_shape)
    with torch.device("meta"):
        encoder = build_encoder(config, view)
        if config.train_size is not None:
            _check_takes(encoder, config.model, config.train_size)
    if config.activation_checkpointing:
        checkpoint_activations(encoder.backbone)
    _check_builds(config, encoder, view, processes)
    if config.init is not None and begins:
        initial_encoder(config, config.init, view)


def _check_policies(config: Config, clouds: bool) -> None:
    """ValueError for augmentations of pictures if the samples are point clouds, and vice versa."""
    for name in ("policy", "equivariance_policy", "measured_policy"):
        if (getattr(config, name) == POINT_POLICY) != clouds:
            wanted = "rotations, since it holds point clouds" if clouds else "one for images"
            raise ValueError(f"{name} {getattr(config, name)} cannot augment {config.data}: choose {wanted}")


def _check_builds(config: Config, encoder: Encoder, view: tuple[int, ...], processes: int) -> None:
    """Build the objective as for training, around `encoder`, whose weights are not allocated; its error, if it fails.

    A method of the user's own may need the weights: only if it also fails with an encoder that has them is this an
    error. The random state stays as it is.
    """
    batch = config.batch_size // config.accumulate
    with torch.random.fork_rng(devices=[]):
        try:
            build_objective(config, encoder, batch, processes)
        except Exception:
            build_objective(config, build_encoder(config, view), batch, processes)


def _check_takes(encoder: Encoder, model: str, side: int) -> None:
    """ValueError if the network accepts pictures of one size only, as Vision Transformers do."""
    try:
        output_width(encoder.backbone, (side, side))
    except MISFITS as error:
        raise ValueError(f"{model} accepts views of one size only, not of {side} px: leave out train_size") from error


def stem_sentence(config: Config, input_shape: tuple[int, ...]) -> str | None:
    """A sentence about the stem for views of a data set of shape `input_shape`; None if the model is not a ResNet."""
    view = view_shape(config, input_shape)
    with torch.device("meta"):
        return describe_stem(build_encoder(config, view).backbone, view[0])
