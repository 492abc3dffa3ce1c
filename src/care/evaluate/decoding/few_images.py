"""The number of images that an R² needs to be worth printing."""

import math

NORMAL = 1.96  # standard deviations to either side for 95 %
WORST = 4 / (3 * math.sqrt(3))  # the largest 2 √ρ (1 − ρ), at ρ = 1/3
PRECISION = 0.1  # an R² is printed if half of its 95 % interval is at most this


def r2_precision(images: int) -> float:
    """Half of the 95 % interval of R² from `images` images, half of them fitted and half of them scored.

    R² of m scored images has the standard deviation 2 √ρ (1 − ρ) / √m around its expectation ρ, which is largest at
    ρ = 1/3: 0.77 / √m. In addition, a decoder fitted to few images makes R² too low.
    """
    return NORMAL * WORST / math.sqrt(images / 2)


def images_for_r2() -> int:
    """The fewest images for an interval of at most R² ± 0.1."""
    return 2 * math.ceil((NORMAL * WORST / PRECISION) ** 2)


def too_few_images(title: str, images: int) -> str | None:
    """The sentence printed in place of a table of R², or None if there are enough images."""
    if images >= images_for_r2():
        return None
    return (
        f"{title}: – ({images:,} images give R² ± {r2_precision(images):.2f} at best; {images_for_r2():,} are needed "
        f"for ± {PRECISION:g})"
    )
