"""What a CUDA graph copies from the memory of the host, asked of the driver."""

import ctypes

import torch

KERNEL, COPY, INNER_GRAPH = 0, 1, 4  # kinds of nodes (CUgraphNodeType)
MEMORY_TYPE, ON_THE_HOST, ON_A_GPU = 2, 1, 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE and two of its values


class Side(ctypes.Structure):
    """Where a copy reads, or where it writes (half of CUDA_MEMCPY3D)."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("x", "y", "z", "level")),
        ("kind", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("host", "device", "array", "reserved")),
        *((name, ctypes.c_size_t) for name in ("pitch", "height")),
    ]


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [
        ("source", Side),
        ("target", Side),
        *((name, ctypes.c_size_t) for name in ("bytes", "rows", "planes")),
    ]


def kinds_and_copies(graph: torch.cuda.CUDAGraph) -> tuple[list[int], list[Copy]]:
    """The kind of every node of a graph that was made with `keep_graph=True`, and the copies among them."""
    driver = ctypes.CDLL("libcuda.so.1")
    return _nodes(driver, ctypes.c_void_p(graph.raw_cuda_graph()))


def reads_the_host(copy: Copy) -> bool:
    """Whether it reads, at every replay, what is then in a place in the memory of the host."""
    address = copy.source.device or copy.source.host
    found = ctypes.c_uint(0)
    known = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(
        ctypes.byref(found), MEMORY_TYPE, ctypes.c_uint64(address or 0)
    )
    return copy.source.kind == ON_THE_HOST or known != 0 or found.value != ON_A_GPU


def _nodes(driver: ctypes.CDLL, graph: ctypes.c_void_p) -> tuple[list[int], list[Copy]]:
    count = ctypes.c_size_t(0)
    assert driver.cuGraphGetNodes(graph, None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)) == 0
    kinds, copies = list[int](), list[Copy]()
    for node in map(ctypes.c_void_p, nodes):
        kind, copy, inner = ctypes.c_int(), Copy(), ctypes.c_void_p()
        assert driver.cuGraphNodeGetType(node, ctypes.byref(kind)) == 0
        kinds.append(kind.value)
        if kind.value == COPY:
            assert driver.cuGraphMemcpyNodeGetParams(node, ctypes.byref(copy)) == 0
            copies.append(copy)
        if kind.value == INNER_GRAPH:
            assert driver.cuGraphChildGraphNodeGetGraph(node, ctypes.byref(inner)) == 0
            below = _nodes(driver, inner)
            kinds, copies = kinds + below[0], copies + below[1]
    return kinds, copies
