"""A data set as a user writes one."""

from torch.utils.data import Dataset


class Photos(Dataset):
    """Pictures of any kind with labels, and with names of classes where there are some."""

    def __init__(self, items, classes=None):
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]
