"""The map from augmentations to rotations of embeddings."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor

from care.atomic_files import BLANK, is_sealed, seal, write_atomically
from care.augment import Parameters, coordinate_names, coordinates
from care.steer.generators import rotations, with_products

FORMAT = "care steering 3"
ABOUT = ("names", "center", "products", "output")  # of a steering, in the header of its file


@dataclass(frozen=True, eq=False)
class Steering:
    """R(a) = I + B (exp(Σ_k θ_k(a) A_k) − I) Bᵀ for skew `generators` A_k [m, m] and orthonormal columns B of `basis`.

    Always in SO(d), the identity for the augmentation that changes nothing, and a one-parameter subgroup along every
    line of coordinates θ through 0. What is not in the span of B stays where it is. `names` are those of θ, `center` is
    the part of the picture that the un-augmented view shows.

    With `products`, pairs of names, the sum goes on with θ_i θ_j A_ij, whose generators are behind the others. Lines on
    which one of them varies are then no subgroups. `output` names what of a model it was fitted to.

    One augmentation turns all embeddings alike; otherwise embedding i is turned by augmentation i.
    """

    names: tuple[str, ...]
    center: float
    basis: Float[Tensor, "d m"]
    generators: Float[Tensor, "k m m"]
    products: tuple[tuple[str, str], ...] = ()
    output: str = "head"

    def coordinates(self, augmentations: Parameters) -> Float[Tensor, "n k"]:
        """θ of every augmentation, on the device of the generators."""
        if coordinate_names(augmentations) != self.names:
            raise ValueError(f"this steering is for augmentations by {', '.join(self.names)}, not for {augmentations}")
        return coordinates(augmentations, self.center).to(self.generators)

    def rotation(self, augmentations: Parameters) -> Float[Tensor, "n d d"]:
        """R(a) as matrices, for looking at them: `turn` does not need them."""
        R = self._rotations(self.coordinates(augmentations))
        eye = torch.eye(R.shape[-1]).to(R)
        return torch.eye(len(self.basis)).to(R) + self.basis @ (R - eye) @ self.basis.mT

    def turn(self, z: Float[Tensor, "n d"], augmentations: Parameters) -> Float[Tensor, "n d"]:
        """R(a) z: where the embedding of a(x) should be, for z = f(x)."""
        return self.turn_by(z, self.coordinates(augmentations))

    def inverse(self, z: Float[Tensor, "n d"], augmentations: Parameters) -> Float[Tensor, "n d"]:
        """R(a)ᵀ z: undoes `turn`."""
        return self._turned(z, self._rotations(self.coordinates(augmentations)).mT)

    def canonicalize(self, z: Float[Tensor, "n d"], augmentations: Parameters) -> Float[Tensor, "n d"]:
        """Where f(x) should be, for z = f(a(x)): the embedding as if nothing had been done to the image."""
        return self.inverse(z, augmentations)

    def turn_by(self, z: Float[Tensor, "n d"], theta: Float[Tensor, "b k"]) -> Float[Tensor, "n d"]:
        """R(θ) z for coordinates θ, one row or as many as z has."""
        return self._turned(z, self._rotations(theta))

    def _rotations(self, theta: Float[Tensor, "b k"]) -> Float[Tensor, "b m m"]:
        return rotations(self.generators, with_products(theta, self.names, self.products))

    def _turned(self, z: Float[Tensor, "n d"], R: Float[Tensor, "b m m"]) -> Float[Tensor, "n d"]:
        """A product with B, one with R, one with Bᵀ."""
        if len(R) not in (1, len(z)):
            raise ValueError(f"{len(z)} embeddings cannot be turned by {len(R)} augmentations: pass 1 or {len(z)}")
        y = z.to(self.basis) @ self.basis
        turned = y @ R[0].mT if len(R) == 1 else (R @ y[:, :, None])[:, :, 0]
        return z + (turned - y) @ self.basis.mT

    def to(self, device: torch.device | str) -> "Steering":
        """The same steering on another device."""
        return dataclasses.replace(self, basis=self.basis.to(device), generators=self.generators.to(device))


def save(steering: Steering, file: str | Path) -> None:
    """Write a safetensors file whose header says what it is, durably, with a checksum."""
    tensors = {"basis": steering.basis.cpu().contiguous(), "generators": steering.generators.cpu().contiguous()}
    about = {name: json.dumps(getattr(steering, name)) for name in ABOUT}
    header = {"format": FORMAT, **about, "sha256": BLANK.decode()}
    write_atomically(Path(file), seal(safetensors.torch.save(tensors, header)))


def load(file: str | Path) -> Steering:
    """What `save` wrote, on the CPU; ValueError if any byte of it has changed."""
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file} does not exist: care steer RUN makes it")
    data = file.read_bytes()
    if not is_sealed(data):
        raise ValueError(f"{file} is damaged, or was not written by care steer: its checksum does not match")
    try:
        tensors = safetensors.torch.load(data)
    except SafetensorError as error:
        raise ValueError(f"{file} is not a safetensors file: {error}") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    if header.get("format") != FORMAT:
        raise ValueError(f"{file} holds no steering: its format is {header.get('format')}, not {FORMAT}")
    names, center, products, output = (json.loads(header[name]) for name in ABOUT)
    pairs = tuple((first, second) for first, second in products)
    return Steering(tuple(names), center, tensors["basis"], tensors["generators"], pairs, output)
