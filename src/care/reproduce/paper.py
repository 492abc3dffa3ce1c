"""The paper's numbers, top-1 accuracy of linear probes in percent, with its standard deviation."""

# Data set → method → (mean, standard deviation over seeds of the probe), ResNet-50.
PROBES: dict[str, dict[str, tuple[float, float]]] = {
    "cifar10": {
        "SimCLR": (90.98, 0.10), "CARE": (91.92, 0.12), "MoCo-v2": (91.95, 0.05), "CARE-MoCo-v2": (92.19, 0.01),
    },
    "cifar100": {
        "SimCLR": (66.77, 0.34), "CARE": (68.05, 0.28), "MoCo-v2": (69.88, 0.23), "CARE-MoCo-v2": (70.56, 0.15),
    },
    "stl10": {"SimCLR": (84.19, 0.13), "CARE": (84.64, 0.29), "CARE-MoCo-v2": (88.97, 0.48)},
    "imagenet100": {
        "SimCLR": (72.79, 0.08), "CARE": (76.69, 0.08), "MoCo-v2": (73.50, 0.19), "CARE-MoCo-v2": (74.30, 0.07),
    },
}  # fmt: skip


def paper_probe(data: str, label: str) -> str:
    """The paper's number, as a cell of a table; – if the paper has none."""
    found = PROBES.get(data, {}).get(label)
    return "–" if found is None else f"{found[0]:.2f} ± {found[1]:.2f}"
