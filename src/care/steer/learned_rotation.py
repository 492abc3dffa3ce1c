"""The learned rotation R(θ) = exp(Σ_k θ_k A_k) of embeddings, as a function of an augmentation's parameters."""

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

FORMAT = "care learned rotation 1"
ABOUT = ("names", "center", "products", "output")  # the fields stored in the file's header


@dataclass(frozen=True, eq=False)
class LearnedRotation:
    """R(a) = I + B (exp(Σ_k θ_k(a) A_k) − I) Bᵀ for skew `generators` A_k [m, m] and orthonormal columns B of `basis`.

    R(a) is in SO(d) for every augmentation a, the identity for the augmentation that changes nothing, and a
    one-parameter subgroup along every line of coordinates θ through 0. It fixes the orthogonal complement of the span
    of B. `names` are the names of θ's columns; `center` is the side of the un-augmented view, as a fraction of the
    picture's shorter side.

    With `products`, pairs of names, the exponent has the additional terms θ_i θ_j A_ij, whose generators come last.
    Lines along which a product varies are then not subgroups. `output` is the output of the model that R(a) acts on.

    One augmentation rotates all embeddings; several augmentations rotate one embedding each.
    """

    names: tuple[str, ...]
    center: float
    basis: Float[Tensor, "d m"]
    generators: Float[Tensor, "k m m"]
    products: tuple[tuple[str, str], ...] = ()
    output: str = "embedding"

    def coordinates(self, augmentations: Parameters) -> Float[Tensor, "n k"]:
        """θ of every augmentation, on the device of the generators."""
        if coordinate_names(augmentations) != self.names:
            raise ValueError(f"this R(θ) is for augmentations by {', '.join(self.names)}, not for {augmentations}")
        return coordinates(augmentations, self.center).to(self.generators)

    def matrix(self, augmentations: Parameters) -> Float[Tensor, "n d d"]:
        """R(a) as d × d matrices. `rotate` does not form them."""
        R = self._rotations(self.coordinates(augmentations))
        eye = torch.eye(R.shape[-1]).to(R)
        return torch.eye(len(self.basis)).to(R) + self.basis @ (R - eye) @ self.basis.mT

    def rotate(self, z: Float[Tensor, "n d"], augmentations: Parameters) -> Float[Tensor, "n d"]:
        """R(a) z, the prediction of f(a(x)) from z = f(x)."""
        return self.rotate_by(z, self.coordinates(augmentations))

    def rotate_by(self, z: Float[Tensor, "n d"], theta: Float[Tensor, "b k"]) -> Float[Tensor, "n d"]:
        """R(θ) z for coordinates θ, with one row or as many rows as z."""
        return self._rotated(z, self._rotations(theta))

    def canonicalize(self, z: Float[Tensor, "n d"], augmentations: Parameters) -> Float[Tensor, "n d"]:
        """R(a)ᵀ z, the prediction of f(x) from z = f(a(x)): the inverse of `rotate`."""
        return self._rotated(z, self._rotations(self.coordinates(augmentations)).mT)

    def _rotations(self, theta: Float[Tensor, "b k"]) -> Float[Tensor, "b m m"]:
        return rotations(self.generators, with_products(theta, self.names, self.products))

    def _rotated(self, z: Float[Tensor, "n d"], R: Float[Tensor, "b m m"]) -> Float[Tensor, "n d"]:
        """z + B (R − I) Bᵀ z."""
        if len(R) not in (1, len(z)):
            raise ValueError(f"{len(z)} embeddings cannot be rotated by {len(R)} augmentations: pass 1 or {len(z)}")
        y = z.to(self.basis) @ self.basis
        rotated = y @ R[0].mT if len(R) == 1 else (R @ y[:, :, None])[:, :, 0]
        return z + (rotated - y) @ self.basis.mT

    def to(self, device: torch.device | str) -> "LearnedRotation":
        """The same rotation on another device."""
        return dataclasses.replace(self, basis=self.basis.to(device), generators=self.generators.to(device))


def save(rotation: LearnedRotation, file: str | Path) -> None:
    """Write a safetensors file with a header that describes it and a checksum, atomically."""
    tensors = {"basis": rotation.basis.cpu().contiguous(), "generators": rotation.generators.cpu().contiguous()}
    about = {name: json.dumps(getattr(rotation, name)) for name in ABOUT}
    header = {"format": FORMAT, **about, "sha256": BLANK.decode()}
    write_atomically(Path(file), seal(safetensors.torch.save(tensors, header)))


def load(file: str | Path) -> LearnedRotation:
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
        raise ValueError(f"{file} holds no learned rotation: its format is {header.get('format')}, not {FORMAT}")
    names, center, products, output = (json.loads(header[name]) for name in ABOUT)
    pairs = tuple((first, second) for first, second in products)
    return LearnedRotation(tuple(names), center, tensors["basis"], tensors["generators"], pairs, output)
