"""Training: configurations and recipes, the loop, run folders."""

from care.train.config import Config
from care.train.loop import Interrupted, Job, prepare, train
from care.train.progress import Progress, Several, TensorBoard, Terminal, Watched
from care.train.recipes import default_config, keeping, recipe, recipes
from care.train.runs import Run, load

__all__ = [
    "Config",
    "Interrupted",
    "Job",
    "Progress",
    "Run",
    "Several",
    "TensorBoard",
    "Terminal",
    "Watched",
    "default_config",
    "keeping",
    "load",
    "prepare",
    "recipe",
    "recipes",
    "train",
]
