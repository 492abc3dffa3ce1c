"""The settings of a run beside those of its objective: data, optimization, arithmetic and measuring."""

import os
from dataclasses import dataclass
from typing import Literal

from care.objective import ObjectiveSettings, policy_for, setting, view_plan
from care.objective.choice import Unchecked
from care.train.distributed import check_device


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(ObjectiveSettings):
    """The settings of a run, including those of its objective."""

    data: str = setting(
        help="Data set: shapes, chains, cifar10, … (`care data list`), or a folder: a prepared store, or one such as "
        "photos/, whose pictures or shards are decoded during training."
    )
    split: str = setting("train", "The split to train on.")
    limit: int | None = setting(None, "Train on the first N samples only. Default: all.", at_least=1)
    validation: int = setting(
        0,
        "Hold out this many samples per class of the training split, or this many in all if there are no classes, and "
        "measure on them instead of the test split.",
        at_least=0,
    )
    pixels: int | None = setting(
        None,
        "Decode pictures that are not prepared to squares of this side in pixels. Default: 8/7 of a view's side; small "
        "pictures keep their own.",
        at_least=8,
        at_most=4096,
    )
    decoder: Literal["cpu", "gpu"] = setting(
        "cpu", "Decode JPEGs that are not prepared on all CPU cores, or on the GPU that trains, with nvJPEG."
    )
    cache: str | None = setting(
        None,
        "A folder that keeps decoded pictures, so that later epochs and runs read them instead of decoding again. A "
        "picture takes 196 kB at 256 pixels, a million 196 GB; a tenth of the disk stays free. Default: no cache.",
    )
    init: str | None = setting(
        None,
        "Initialize the backbone from timm/NAME, timm/NAME@FILE.safetensors, a run, a .safetensors or a TorchScript "
        "file. Default: random weights.",
    )
    epochs: int = setting(400, "Number of epochs.", at_least=1)
    batch_size: int = setting(256, "Samples per step, over all processes.", at_least=2, at_most=1 << 20)
    accumulate: int = setting(
        1,
        "Micro-batches per step, to save memory. They change the loss: negatives, chunks and BatchNorm are those of a "
        "micro-batch. With 8 of them in a batch of 256, SimCLR has 62 negatives, not 510. A queue takes the keys of "
        "all. --tile saves memory without changing InfoNCE.",
        at_least=1,
    )
    optimizer: Literal["adam", "adamw", "sgd", "lars", "muon"] = setting("adam", "The optimizer.")
    # larger steps do not fit into a float32
    learning_rate: float = setting(
        1e-3,
        "The learning rate. Default: 0.001 for adam and adamw, 0.003 for muon, 0.06 · batch / 256 for sgd, "
        "0.3 · batch / 256 for lars.",
        above=0,
        at_most=1e37,
    )
    weight_decay: float = setting(1e-6, "Weight decay.", at_least=0)
    norm_bias_decay: bool = setting(
        True, "Also decay the weights of norms and biases, as in the paper. lars and muon never do."
    )
    clip_gradient: float | None = setting(
        None, "Clip the norm of the gradient to this value. Default: no clipping.", above=0
    )
    sgd_momentum: float = setting(
        0.9, "Momentum of sgd, lars and muon. Default: 0.9, with muon 0.95.", at_least=0, below=1
    )
    schedule: Literal["constant", "cosine", "cooldown"] = setting(
        "constant", "The learning-rate schedule; cooldown is constant, then falls to 0 over the last quarter."
    )
    warmup_epochs: int = setting(0, "Epochs of linear learning-rate warm-up.", at_least=0)
    ema: float = setting(
        0.0, "Keep an exponential moving average of the encoder with this momentum. 0: none.", at_least=0, below=1
    )
    seed: int = setting(0, "The same seed gives the same run on a CPU.")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, or mps; auto is a CUDA GPU, if there is one, or the CPU.")
    precision: Literal["auto", "bf16", "fp16", "fp32"] = setting(
        "auto", "Precision of the forward pass; auto is fp32 on a CPU, bf16 on a GPU, fp16 on a GPU without bf16."
    )
    compile: bool | None = setting(
        None,
        "Compile the network with torch.compile, which takes about a minute at the first start and then trains almost "
        "twice as fast. Default: on a GPU, for two million samples or more.",
    )
    activation_checkpointing: bool = setting(
        False, "Recompute activations in the backward pass: less memory, more time. Models of timm only."
    )
    graph: bool = setting(True, "On GPUs, replay the whole step, communication included, as a CUDA graph.")
    deterministic: bool = setting(False, "Make the same seed give the same bits on a GPU, too; slower.")
    evaluate_every: int | None = setting(
        None,
        "Measure after every N epochs. Default: as often as takes at most a tenth of the training time.",
        at_least=1,
    )
    measure_policy: str | None = setting(
        None,
        "Augmentations for measuring the run. Default: those of the equivariance loss; with a split embedding, or "
        "without an equivariance, the method's.",
    )

    @property
    def micro_batches(self) -> int:
        """The number of batches whose gradients a step adds up."""
        return self.accumulate

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)
        if self.cache is not None:  # absolute, for a resume from any folder; "" undoes the cache of a --config file
            object.__setattr__(self, "cache", os.path.abspath(self.cache) if self.cache else None)
        require(
            self.warmup_epochs <= self.epochs,
            f"warmup_epochs must be in [0, {self.epochs}], the number of epochs, got {self.warmup_epochs}",
        )
        require(self.batch_size % self.accumulate == 0, f"accumulate must divide the batch of {self.batch_size}")
        require(
            self.batch_size >= 2 * self.accumulate, f"accumulate must be at most {self.batch_size // 2}, half a batch"
        )
        require(
            self.optimizer in ("sgd", "lars", "muon") or self.sgd_momentum == 0.9,
            f"sgd_momentum applies to sgd, lars and muon only, not to {self.optimizer}: leave it at 0.9",
        )
        require(
            not (self.activation_checkpointing and self.compile),
            "activation_checkpointing cannot be compiled: leave out `compile`",
        )
        require(
            not (self.activation_checkpointing and self.equivariant_layer) or self.stop_gradient,
            "activation_checkpointing does not work with an equivariant_layer, whose activations are kept: leave one "
            "of them out, or add stop_gradient",
        )
        if self.measure_policy is not None:
            policy_for(self.measure_policy)  # ValueError for an unknown policy
        if not any(isinstance(choice.settings, Unchecked) for choice in (self.method, self.equivariance)):
            self.check(self.batch_size // self.accumulate)
            turned = any(view.turned for view in view_plan(self, self.batch_size // self.accumulate).views)
            require(
                not (self.activation_checkpointing and turned),
                "activation_checkpointing works with one forward pass per step, "
                f"and {self.equivariance.name} needs two: leave it out",
            )


def require(condition: bool, message: str) -> None:
    """Raise ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)
