"""The settings of a benchmark: sizes, and the methods that are compared."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from care.data import Samples
from care.losses import mean_weight
from care.objective import build_encoder
from care.train import Config
from care.train.default_values import published_head
from care.train.distributed import resolve_device
from care.train.recipes import applicable

# λ of the paper's CIFAR-10 experiment: 0.01 for the authors, on chunks of 16.
CARE_SETTINGS: dict[str, Any] = {"equivariance": "care", "care_weight": mean_weight(0.01, 16)}

MOST_PROCESSES, LARGEST_STORE = 1024, 1 << 38  # bytes
STORE_BYTES = 4_000_000_000  # the largest store, unless a number of images is chosen

# The networks for photos; on a CPU as small as possible, only to see that it works.
NETWORKS_ON_GPU, NETWORKS_ON_CPU = ("resnet50", "vit_small_patch16_224"), ("test_resnet", "test_vit")
PHOTOS_ON_GPU = {"size": 224, "batch_size": 128, "seconds": 2.0}
PHOTOS_ON_CPU = {"size": 64, "batch_size": 16, "seconds": 1.0, "images": 512}

# The methods whose training step is measured, by the name of their row.
METHODS: dict[str, dict[str, Any]] = {
    "SimCLR": {},
    "CARE": CARE_SETTINGS,
    "CARE, joint BatchNorm": {**CARE_SETTINGS, "batchnorm": "joint"},
    "MoCo-v2 + CARE": {**CARE_SETTINGS, "method": "mocov2"},
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a measurement. `seconds` is for each row, `batch_size` for each process, `images` for the store.

    `methods` are the names of methods to compare with SimCLR; none means all. `networks` are measured on the photos of
    the folder `photos`, or on generated ones.
    """

    device: str
    model: str
    batch_size: int
    size: int
    seconds: float
    processes: tuple[int, ...]
    compile: bool
    images: int
    methods: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    photos: str | None = None

    def __post_init__(self) -> None:
        if self.device != "cpu" and not self.on_gpu:
            raise ValueError(f"device must be auto, cpu, cuda or cuda:1, got {self.device!r}")
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"a row needs a positive number of seconds, got {self.seconds}")
        if not self.processes or not 1 <= min(self.processes) <= max(self.processes) <= MOST_PROCESSES:
            raise ValueError(f"numbers of processes must be in [1, {MOST_PROCESSES}], got {list(self.processes)}")
        if self.images * 3 * self.size**2 > LARGEST_STORE:
            raise ValueError(
                f"{self.images} images of {self.size} pixels take more than {LARGEST_STORE:,} bytes: choose fewer"
            )
        if self.batch_size < 4:
            raise ValueError(f"a batch of {self.batch_size} has no chunks to compare, at least 4 images are needed")
        if self.images < self.batch_size:
            raise ValueError(f"a store of {self.images} images does not fill one batch of {self.batch_size}")
        gpus = torch.cuda.device_count() if self.on_gpu else max(self.processes)
        if max(self.processes) > gpus:
            raise ValueError(f"{max(self.processes)} processes need a GPU each, and there are {gpus}")

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU is measured."""
        return self.device.startswith("cuda")

    @property
    def chunks(self) -> int:
        """The paper's 16, or as many as divide a small batch into chunks of at least two."""
        return max(c for c in range(1, 17) if self.batch_size % c == 0 and self.batch_size // c >= 2)

    def config(self, processes: int = 1, **chosen: Any) -> Config:
        """The configuration with which `care train` would train a method; a batch of `batch_size` per process."""
        batch = self.batch_size * processes
        sizes = {"chunks": self.chunks * processes, "queue": max(4096, batch)}
        return Config.of(
            data="random",
            model=self.model,
            batch_size=batch,
            size=self.size,
            device=self.device,
            compile=self.compile,
            **applicable(sizes, chosen),
            **{**published_head(chosen.get("method", "simclr"), self.model), **chosen},
        )

    def check(self) -> None:
        """ValueError if a method cannot be built with these settings."""
        for chosen in METHODS.values():
            config = self.config(**chosen)
        build_encoder(config, (self.size, self.size))

    def random_images(self, n: int) -> UInt8[Tensor, "{n} 3 {self.size} {self.size}"]:
        """n images of noise, the same every time, on the host."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(256, (n, 3, self.size, self.size), dtype=torch.uint8, generator=generator)

    def random_samples(self, processes: int = 1) -> Samples:
        """One batch of noise, as a data set."""
        n = self.batch_size * processes
        return Samples(self.random_images(n), torch.zeros(n, dtype=torch.int64), ("noise",), name="random")


def default_settings(device: str = "auto", of_photos: bool = False, **chosen: Any) -> Settings:
    """The paper's sizes on a GPU, and on a CPU sizes with which everything ends in about two minutes.

    Settings that are None in `chosen` keep their default. With `of_photos`, the default sizes are those of ImageNet.
    """
    device = resolve_device(device)
    chosen = {name: value for name, value in chosen.items() if value is not None}
    networks = NETWORKS_ON_GPU if device.startswith("cuda") else NETWORKS_ON_CPU
    chosen = {"networks": (chosen["model"],) if "model" in chosen else networks, **chosen}
    if of_photos:
        sizes = PHOTOS_ON_GPU if device.startswith("cuda") else PHOTOS_ON_CPU
        chosen = {"model": networks[0], **sizes, **chosen}
    size = chosen.get("size", 32)
    if device.startswith("cuda"):
        gpus = torch.cuda.device_count()
        known: dict[str, Any] = {
            "model": "resnet18", "batch_size": 256, "size": 32, "seconds": 5.0, "compile": True,
            "images": max(chosen.get("batch_size", 256), min(50_000, STORE_BYTES // (3 * size**2))),
            "processes": tuple(2**k for k in range(gpus.bit_length())),
        }  # fmt: skip
    else:
        known = {
            "model": "test_resnet", "batch_size": 64, "size": 32, "seconds": 2.0, "compile": False, "images": 10_000,
            "processes": (1, 2),
        }  # fmt: skip
    return Settings(device=device, **known | chosen)
