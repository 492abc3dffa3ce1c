"""How many images an R² needs to be worth printing."""

import math

NORMAL = 1.96  # standard deviations to either side that hold 95 %
WORST = 4 / (3 * math.sqrt(3))  # the largest 2 √ρ (1 − ρ), at ρ = 1/3
PRECISION = 0.1  # half of the 95 % interval of an R² that is printed


def r2_precision(images: int) -> float:
    """Half of the 95 % interval of R² from so many images, of which one half is fitted and the other scored.

    R² of m scored images has the standard deviation 2 √ρ (1 − ρ) / √m around its expectation ρ, which is largest at
    ρ = 1/3: 0.77 / √m. What the decoder lacks of the other half comes on top, and makes R² too low.
    """
    return NORMAL * WORST / math.sqrt(images / 2)


def images_for_r2() -> int:
    """From how many images on the interval is at most R² ± 0.1."""
    return 2 * math.ceil((NORMAL * WORST / PRECISION) ** 2)


def too_few_images(title: str, images: int) -> str | None:
    """What is printed in place of a table of R²; None where there are images enough."""
    if images >= images_for_r2():
        return None
    return (
        f"{title}: – ({images:,} images give R² ± {r2_precision(images):.1f} at best; {images_for_r2():,} are needed "
        f"for ± {PRECISION:g})"
    )
