"""Points that nobody would draw: repeated, zero, in a line, tiny, huge."""

import hypothesis.strategies as st
import torch


@st.composite
def points(draw, n=None, d=None, zeros=True):
    """Float64 rows [n, d] of any rank, some of them repeated and, if `zeros`, some of them zero."""
    n = draw(st.integers(2, 9)) if n is None else n
    d = draw(st.integers(1, 6)) if d is None else d
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    rank = draw(st.integers(0 if zeros else 1, d))
    rows = torch.randn(n, rank, generator=generator, dtype=torch.float64)
    x = rows @ torch.randn(rank, d, generator=generator, dtype=torch.float64)
    if zeros and draw(st.booleans()):
        x[draw(st.integers(0, n - 1))] = 0
    if draw(st.booleans()):
        x[draw(st.integers(0, n - 1))] = x[draw(st.integers(0, n - 1))]
    return x * 10.0 ** draw(st.integers(-3, 3))


@st.composite
def orthogonal(draw, d):
    """Haar-distributed Q ∈ O(d)."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    q, r = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()


@st.composite
def chunked(draw, zeros=True):
    """(z1, z2, chunks): two views of a batch that falls into chunks of at least two rows."""
    chunks, size, d = draw(st.integers(1, 3)), draw(st.integers(2, 4)), draw(st.integers(1, 5))
    z1, z2 = (draw(points(chunks * size, d, zeros)) for _ in range(2))
    return z1, z2, chunks
