"""The questions of a browser, parsed and checked."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slider:
    """One parameter of the augmentation, from `low` to `high`; at `start` it changes nothing."""

    name: str
    label: str
    low: float
    high: float
    start: float
    step: float


SLIDERS = (
    Slider("hue", "Hue", -0.5, 0.5, 0.0, 0.01),
    Slider("brightness", "Brightness", 0.2, 1.8, 1.0, 0.01),
    Slider("saturation", "Saturation", 0.2, 1.8, 1.0, 0.01),
    Slider("contrast", "Contrast", 0.2, 1.8, 1.0, 0.01),
    Slider("zoom", "Crop side", 0.2, 1.0, 1.0, 0.01),
    Slider("x", "Crop x", -0.5, 0.5, 0.0, 0.01),
    Slider("y", "Crop y", -0.5, 0.5, 0.0, 0.01),
)


@dataclass(frozen=True)
class Question:
    """An image by its number, and the values of the sliders that are not at their start."""

    image: int
    changes: dict[str, float]


def read_question(body: bytes, images: int) -> Question:
    """The question in a body of JSON, {"image": 3, "changes": {"hue": 0.2}}; ValueError says what is wrong with it."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError('the question is not JSON: send {"image": 3, "changes": {"hue": 0.2}}') from None
    if not isinstance(asked, dict) or asked.keys() != {"image", "changes"} or not isinstance(asked["changes"], dict):
        raise ValueError('the question is not like {"image": 3, "changes": {"hue": 0.2}}')
    image, sliders = asked["image"], {slider.name: slider for slider in SLIDERS}
    if type(image) is not int or not 0 <= image < images:
        raise ValueError(f"image must be a whole number from 0 to {images - 1}")
    if not asked["changes"].keys() <= sliders.keys():
        raise ValueError(f"a change must be one of {', '.join(sliders)}")
    changes = {name: _value(sliders[name], value) for name, value in asked["changes"].items()}
    return Question(image, {name: value for name, value in changes.items() if value != sliders[name].start})


def _value(slider: Slider, value: Any) -> float:
    if type(value) not in (int, float) or not slider.low <= value <= slider.high:
        raise ValueError(f"{slider.name} must be a number from {slider.low:g} to {slider.high:g}")
    return float(value)
