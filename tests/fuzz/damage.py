"""Ways in which a file goes bad, drawn at random from a seed: a pure function of the bytes and a number."""

import random

PAGE = 512


def flip_bit(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def change_byte(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def change_digit(data, rng):
    """A number becomes another one: the damage that parsers do not see."""
    places = [i for i, byte in enumerate(data) if chr(byte).isdigit()] or [0]
    at = rng.choice(places)
    return data[:at] + rng.choice(b"0123456789").to_bytes(1, "big") + data[at + 1 :]


def change_start(data, rng):
    """The first bytes hold lengths and offsets."""
    at = rng.randrange(min(16, len(data)))
    return data[:at] + rng.randbytes(1) + data[at + 1 :]


def cut_off(data, rng):
    return data[: rng.randrange(len(data))]


def insert(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]


def delete(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randrange(1, 9) :]


def swap(data, rng):
    """Two blocks in each other's place."""
    size = rng.randrange(1, max(2, min(PAGE, len(data) // 2)))
    a, b = sorted(rng.randrange(0, max(1, len(data) - size)) for _ in range(2))
    b = max(b, a + size)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def zero_page(data, rng):
    at = rng.randrange(len(data)) // PAGE * PAGE
    return data[:at] + bytes(min(PAGE, len(data) - at)) + data[at + PAGE :]


def repeat(data, rng):
    """A block twice, as when a write was done again at the wrong place."""
    at, size = rng.randrange(len(data)), rng.randrange(1, PAGE)
    return data[: at + size] + data[at:]


def forget(data, rng):
    return b""


KINDS = (
    *(flip_bit, change_byte, change_digit, change_start, cut_off, insert, delete, swap, zero_page, repeat, forget),
)


def damaged(data, number):
    """(what was done, the bytes afterwards) for any number; the same for the same number."""
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    return kind.__name__, kind(data, rng)
