"""Training: configurations and recipes, the loop, run folders."""

from care.train.config import Config
from care.train.fitted import fitted_config
from care.train.job import Saving, prepare
from care.train.loop import Interrupted, train
from care.train.progress import CallbackProgress, Progress, Several, Terminal
from care.train.recipes import default_config, keeping, recipe, recipes
from care.train.recommended import keep_settings, recommended_config
from care.train.runs import Run
from care.train.trained import load

__all__ = [
    "CallbackProgress",
    "Config",
    "Interrupted",
    "Progress",
    "Run",
    "Saving",
    "Several",
    "Terminal",
    "default_config",
    "fitted_config",
    "keep_settings",
    "keeping",
    "load",
    "prepare",
    "recipe",
    "recipes",
    "recommended_config",
    "train",
]
