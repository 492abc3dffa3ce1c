"""Parse and check the requests (questions) of the browser."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slider:
    """One parameter of the augmentation, from `low` to `high`; at `start` it changes nothing.

    If `step` is the whole range, it is a switch, either on or off.
    """

    name: str
    label: str
    low: float
    high: float
    start: float
    step: float

    @property
    def switch(self) -> bool:
        """Whether there is nothing between `low` and `high`."""
        return self.step == self.high - self.low


SLIDERS = (
    Slider("hue", "Hue", -0.5, 0.5, 0.0, 0.01),
    Slider("brightness", "Brightness", 0.2, 1.8, 1.0, 0.01),
    Slider("saturation", "Saturation", 0.2, 1.8, 1.0, 0.01),
    Slider("contrast", "Contrast", 0.2, 1.8, 1.0, 0.01),
    Slider("blur", "Blur σ", 0.0, 3.0, 0.0, 0.05),
    Slider("zoom", "Crop side", 0.2, 1.0, 1.0, 0.01),
    Slider("x", "Crop x", -0.5, 0.5, 0.0, 0.01),
    Slider("y", "Crop y", -0.5, 0.5, 0.0, 0.01),
    Slider("flip", "Flip", 0.0, 1.0, 0.0, 1.0),
    Slider("gray", "Gray", 0.0, 1.0, 0.0, 1.0),
)
LIKE = '{"image": 3, "changes": {"hue": 0.2}, "models": [0, 1]}'


@dataclass(frozen=True)
class Question:
    """An image or a photo by its number, the values of the sliders that are not at their start, and the models."""

    number: int
    is_photo: bool
    changes: dict[str, float]
    models: tuple[int, ...]


def read_question(body: bytes, images: int, models: Collection[int]) -> Question:
    """The question in a JSON body like `LIKE`, with "photo" for "image" if it is a photo; ValueError if it is wrong.

    `models` are the numbers of the models that can answer.
    """
    asked = read_json(body, LIKE)
    is_photo = "photo" in asked
    if asked.keys() != {"photo" if is_photo else "image", "changes", "models"}:
        raise ValueError(f"the question is not like {LIKE}")
    number = asked["photo" if is_photo else "image"]
    if type(number) is not int or number < 0 or (number >= images and not is_photo):
        raise ValueError(f"image must be a whole number from 0 to {images - 1}, and photo that of one")
    return Question(number, is_photo, _changes(asked["changes"]), _models(asked["models"], models))


def read_model(body: bytes, models: int) -> int:
    """The number of a model in a body like {"model": 2}; ValueError if there is none."""
    asked = read_json(body, '{"model": 2}')
    if asked.keys() != {"model"} or type(asked["model"]) is not int or not 0 <= asked["model"] < models:
        raise ValueError(f'send {{"model": 2}}, a whole number from 0 to {models - 1}')
    return int(asked["model"])


def read_json(body: bytes, like: str) -> dict[str, Any]:
    """The object in a JSON body; ValueError, which shows the example `like`, if there is none."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(f"the question is not JSON: send {like}") from None
    if not isinstance(asked, dict):
        raise ValueError(f"the question is not like {like}")
    return asked


def _changes(given: Any) -> dict[str, float]:
    sliders = {slider.name: slider for slider in SLIDERS}
    if not isinstance(given, dict) or not given.keys() <= sliders.keys():
        raise ValueError(f"a change must be one of {', '.join(sliders)}")
    changes = {name: _value(sliders[name], value) for name, value in given.items()}
    return {name: value for name, value in changes.items() if value != sliders[name].start}


def _models(given: Any, known: Collection[int]) -> tuple[int, ...]:
    whole = isinstance(given, list) and all(type(model) is int and model in known for model in given)
    if not whole or len(set(given)) != len(given):
        raise ValueError("models must be the numbers of different models that have embedded the images")
    return tuple(given)


def _value(slider: Slider, value: Any) -> float:
    if type(value) not in (int, float) or not slider.low <= value <= slider.high:
        raise ValueError(f"{slider.name} must be a number from {slider.low:g} to {slider.high:g}")
    if slider.switch and value not in (slider.low, slider.high):
        raise ValueError(f"{slider.name} must be {slider.low:g} or {slider.high:g}")
    return float(value)
