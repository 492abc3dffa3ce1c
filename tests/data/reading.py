"""What the tests of all readers share."""

import tarfile

import numpy as np


def collected(source):
    examples = list(source.examples)
    assert all(example.image.shape == (3, source.height, source.width) for example in examples)
    return np.stack([example.image for example in examples]), [example.label for example in examples]


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def packed(folder, archive):
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def message_of(call):
    """What the ValueError says that the call ends with; the names of all files if it goes well."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return "test_batch a.mat"
