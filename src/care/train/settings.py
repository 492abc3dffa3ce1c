"""All that decides what a run computes, beside its objective: data, steps, arithmetic, and what is measured."""

import os
from dataclasses import dataclass
from typing import Literal

from care.objective import ObjectiveSettings, policy_for, setting, view_plan
from care.objective.build import Unchecked
from care.train.distributed import check_device


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(ObjectiveSettings):
    """The settings of a run: what its objective has, and all others."""

    data: str = setting(
        help="Data set: shapes, chains, cifar10, … (`care data list`), or a folder: a store, or photos/, whose "
        "pictures or shards are decoded while training."
    )
    split: str = setting("train", "The split to train on.")
    limit: int | None = setting(None, "Train on the first N samples only. Default: all.", at_least=1)
    validation: int = setting(
        0,
        "Cut this many samples per class from train (of all where there are no classes) and watch those instead of the "
        "test split.",
        at_least=0,
    )
    pixels: int | None = setting(
        None,
        "Decode pictures that are not prepared to squares of this side. Default: 8/7 of a view's.",
        at_least=8,
        at_most=4096,
    )
    decoder: Literal["cpu", "gpu"] = setting(
        "cpu", "Who decodes JPEGs that are not prepared: all cores, or the GPU that trains, with nvJPEG."
    )
    cache: str | None = setting(
        None,
        "A folder that keeps pictures as they are decoded: each is decoded once, and read in later epochs and runs. A "
        "picture takes 196 kB at 256 pixels, a million 196 GB; a tenth of the disk stays free. Default: none is kept.",
    )
    init: str | None = setting(
        None,
        "Begin with the backbone of timm/NAME, timm/NAME@FILE.safetensors, a run, a .safetensors or TorchScript file. "
        "Default: random weights.",
    )
    epochs: int = setting(400, "Epochs.", at_least=1)
    batch_size: int = setting(256, "Samples per step, over all processes.", at_least=2, at_most=1 << 20)
    accumulate: int = setting(
        1,
        "Micro-batches per step: less memory, but another loss. Negatives, chunks and BatchNorm are those of a "
        "micro-batch: with 8 of a batch of 256, SimCLR has 62 negatives, not 510. The queue takes the keys of all. "
        "--tile saves memory and leaves InfoNCE as it is.",
        at_least=1,
    )
    optimizer: Literal["adam", "adamw", "sgd", "lars", "muon"] = setting("adam", "The optimizer.")
    # steps of more than this do not fit into a float32
    learning_rate: float = setting(
        1e-3,
        "The learning rate. Default: 0.001 for adam and adamw, 0.003 for muon, 0.06 · batch / 256 for sgd, "
        "0.3 · batch / 256 for lars.",
        above=0,
        at_most=1e37,
    )
    weight_decay: float = setting(1e-6, "Weight decay.", at_least=0)
    norm_bias_decay: bool = setting(
        True, "Weight decay of norms and biases, too, as in the paper. lars and muon never do it."
    )
    clip_gradient: float | None = setting(
        None, "Scale the gradient down to this norm where it is longer. Default: as it is.", above=0
    )
    sgd_momentum: float = setting(0.9, "Momentum of sgd, lars and muon; of muon 0.95 by default.", at_least=0, below=1)
    schedule: Literal["constant", "cosine", "cooldown"] = setting(
        "constant", "The learning rate over training; cooldown is constant and falls to 0 over the last quarter."
    )
    warmup_epochs: int = setting(0, "Epochs in which the learning rate grows.", at_least=0)
    ema: float = setting(
        0.0, "Keep an exponential moving average of the encoder with this momentum. 0: none.", at_least=0, below=1
    )
    seed: int = setting(0, "The same seed gives the same run on a CPU.")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1, or mps; auto is a CUDA GPU, if there is one, or the CPU.")
    precision: Literal["auto", "bf16", "fp16", "fp32"] = setting(
        "auto", "auto is fp32 on a CPU, bf16 on a GPU, and fp16 on a GPU without bf16."
    )
    compile: bool | None = setting(
        None,
        "Compile the network with torch.compile: about a minute at the first start, then almost twice as fast. "
        "Default: on a GPU, for two million samples or more.",
    )
    activation_checkpointing: bool = setting(
        False, "Compute activations twice instead of keeping them: less memory, more time. Models of timm only."
    )
    graph: bool = setting(True, "On GPUs, replay the whole step as a CUDA graph, messages between processes included.")
    deterministic: bool = setting(False, "On a GPU, too, the same seed gives the same bits; slower.")
    evaluate_every: int | None = setting(
        None,
        "Measure after every so many epochs. Default: so that it takes a tenth of training at most.",
        at_least=1,
    )
    measure_policy: str | None = setting(
        None,
        "Augmentations that the run is measured under. Default: those of the equivariance loss; with a split "
        "embedding, or without an equivariance, the method's.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)
        if self.cache is not None:  # the same folder wherever the run is resumed; "" takes back that of a file
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
            f"sgd_momentum is of use to sgd, lars and muon only, not to {self.optimizer}: leave it at 0.9",
        )
        require(
            not (self.activation_checkpointing and self.compile),
            "activation_checkpointing cannot be compiled: leave out --compile",
        )
        require(
            not (self.activation_checkpointing and self.equivariant_layer) or self.stop_gradient,
            "activation_checkpointing keeps the activations of an equivariant_layer: leave out one, or stop_gradient",
        )
        if self.measure_policy is not None:
            policy_for(self.measure_policy)  # says whether there is one
        if not any(isinstance(choice.settings, Unchecked) for choice in (self.method, self.equivariance)):
            self.check(self.batch_size // self.accumulate)
            turned = any(view.turned for view in view_plan(self, self.batch_size // self.accumulate).views)
            require(
                not (self.activation_checkpointing and turned),
                "activation_checkpointing is for one pass through the network, "
                f"and {self.equivariance.name} takes two: leave it out",
            )


def require(condition: bool, message: str) -> None:
    """ValueError unless it holds."""
    if not condition:
        raise ValueError(message)
