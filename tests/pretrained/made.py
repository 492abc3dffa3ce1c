"""Files of models, made by hand."""

import onnx
from onnx import TensorProto, helper
from safetensors.torch import save_file


def onnx_means(file, shape, outputs=1):
    """An ONNX file of the channel means for inputs of this shape, in which words are sizes left open."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["pooled"])]
    nodes += [helper.make_node("Flatten", ["pooled"], [f"y{i}"]) for i in range(outputs)]
    made = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    graph = helper.make_graph(nodes, "means", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], made)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), file)
    return str(file)


def publish(cache, name, tensors):
    """Put weights into a cache of the model hub, as a download would."""
    folder = cache / f"models--timm--{name}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    save_file(tensors, folder / "snapshots" / ("0" * 40) / "model.safetensors")
