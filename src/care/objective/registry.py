"""Methods and equivariances by name. Each is registered by a line below, and imported on first use."""

import dataclasses
import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Literal, overload

from care.objective.method import Equivariance, Method
from care.suggestions import did_you_mean

Kind = Literal["method", "equivariance"]
NONE = "none"

REGISTERED: dict[Kind, dict[str, str]] = {
    "method": {
        "simclr": "care.methods.simclr:SimCLR",
        "mocov2": "care.methods.mocov2:MoCo",
        "mocov3": "care.methods.mocov3:MoCoV3",
        "dcl": "care.methods.dcl:DCL",
        "hard_negatives": "care.methods.hard_negatives:HardNegatives",
        "byol": "care.methods.byol:BYOL",
        "simsiam": "care.methods.simsiam:SimSiam",
        "barlow_twins": "care.methods.barlow_twins:BarlowTwins",
        "vicreg": "care.methods.vicreg:VICReg",
        "invariance": "care.methods.invariance:Invariance",
        "uniformity": "care.methods.uniformity:Uniformity",
    },
    "equivariance": {
        "care": "care.methods.care:CARE",
        "split": "care.methods.split:Split",
        "steering": "care.methods.steering:Steering",
        "augself": "care.methods.augself:AugSelf",
        "equimod": "care.methods.equimod:EquiMod",
        "essl": "care.methods.essl:ESSL",
        "sie": "care.methods.sie:SIE",
        "steerable": "care.methods.steerable:Steerable",
        "duet": "care.methods.duet:DUET",
        "looc": "care.methods.looc:LooC",
        "stl": "care.methods.stl:STL",
        "cassle": "care.methods.cassle:CASSLE",
    },
}
BASES: dict[Kind, type[Method] | type[Equivariance]] = {"method": Method, "equivariance": Equivariance}

Found = type[Method] | type[Equivariance]

_loaded: dict[tuple[Kind, str], Found] = {}


@overload
def find(kind: Literal["method"], name: str) -> type[Method] | None: ...
@overload
def find(kind: Literal["equivariance"], name: str) -> type[Equivariance] | None: ...
@overload
def find(kind: Kind, name: str) -> Found | None: ...
def find(kind: Kind, name: str) -> Found | None:
    """The class registered or loaded under `name`; None for "none". ValueError for an unknown name.

    Code outside this package is never imported from here: a configuration file that names such code must not run it.
    """
    if name == NONE:
        return None
    if (kind, name) in _loaded:
        return _loaded[kind, name]
    if name in REGISTERED[kind]:
        return load(kind, name, REGISTERED[kind][name])
    if ":" in name:
        raise ValueError(f"{name} is code outside of care: it is run only if --{kind} {name} asks for it")
    hint = did_you_mean(name, REGISTERED[kind]) or f", or a class of your own, mine.py:{BASES[kind].__name__}"
    raise ValueError(f"{kind} must be one of {', '.join(names(kind))}, got {name}{hint}")


def setting_names(kind: Kind, name: str) -> list[str]:
    """The names of the settings of the method or equivariance called `name`."""
    found = find(kind, name)
    return [] if found is None else [field.name for field in dataclasses.fields(found.Settings)]


def owners(setting: str) -> list[tuple[Kind, str]]:
    """The registered methods and equivariances that have this setting."""
    return [(kind, name) for kind in REGISTERED for name in REGISTERED[kind] if setting in setting_names(kind, name)]


def names(kind: Kind) -> list[str]:
    """The registered names, and "none"."""
    return [*REGISTERED[kind], NONE]


def load(kind: Kind, name: str, where: str | None = None) -> Found:
    """Import the class at `where`, `mine.py:Mine` or `package.module:Mine`, and make it available as `name`."""
    module_name, _, attribute = (where or name).rpartition(":")
    module = _module(module_name) if where is None else importlib.import_module(module_name)
    found = getattr(module, attribute, None)
    if not isinstance(found, type) or not issubclass(found, BASES[kind]):
        base = f"care.objective.{BASES[kind].__name__}"
        raise ValueError(f"{name}: {module_name} has no class {attribute!r} that is a {base}")
    _loaded[kind, name] = found
    return found


def _module(name: str) -> ModuleType:
    """Import a file or an installed module; ValueError, one sentence, for whatever goes wrong."""
    try:
        return _file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # code outside this package may raise anything
        raise ValueError(f"{name or 'a class'} cannot be imported: {type(error).__name__}: {error}") from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    # Files of the same name in different folders are different modules.
    known_as = f"care_method_{path.stem}_{hashlib.sha256(bytes(path.absolute())).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(known_as, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known_as] = module  # type hints of its dataclasses are looked up there
    spec.loader.exec_module(module)
    return module
