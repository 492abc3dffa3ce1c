"""ONNX files as modules."""

from pathlib import Path

import torch
from torch import Tensor, nn

from care.models.timm_models import in_one_line

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class OnnxModel(nn.Module):
    """An ONNX file as a function of tensors on any device. It runs on the CPU, or on the GPU with onnxruntime-gpu."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        try:
            import onnxruntime

            providers = [name for name in onnxruntime.get_available_providers() if name in PROVIDERS]
            self.session = onnxruntime.InferenceSession(str(file), providers=providers)
        except ImportError as error:
            raise ValueError(f"{file} needs onnxruntime: install care-ssl[onnx]") from error
        except Exception as error:  # onnxruntime's errors share no other base class
            raise ValueError(f"{file} cannot be run by onnxruntime: {in_one_line(error)}") from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        n, *shape = [size if isinstance(size, int) else None for size in inputs[0].shape]  # open dimensions are names
        images = len(shape) == 3 and shape[0] in (3, None) and shape[1] == shape[2]
        if len(inputs) > 1 or len(outputs) > 1 or inputs[0].type != "tensor(float)" or not (images or len(shape) == 2):
            raise ValueError(f"{file} must take one float32 input, square images [n, 3, h, h], and give one output")
        self.name, self.batch, self.size = inputs[0].name, n, shape[-1] if images else None

    def forward(self, inputs: Tensor) -> Tensor:
        """The output for any number of inputs. If the file fixes the batch size, the last batch is filled up."""
        if self.size is not None and inputs.shape[2:] != (self.size, self.size):
            raise ValueError(f"the ONNX model takes images of {self.size} pixels, got {list(inputs.shape[2:])}")
        batch = self.batch or max(1, len(inputs))
        filled = torch.cat([inputs, inputs[-1:].expand(-len(inputs) % batch, *inputs.shape[1:])]).float().cpu()
        parts = [self.session.run(None, {self.name: part.numpy()})[0] for part in filled.split(batch)]
        return torch.cat([torch.from_numpy(part) for part in parts])[: len(inputs)].to(inputs.device)
