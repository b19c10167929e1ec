"""A model of the reference implementation, with the weights of a model folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from mtkit.model_folder.quantised_weights import TensorType
from mtkit.model_folder.safetensors_file import Arrays
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import SkipInit, build_on_meta
from mtkit.training.checkpoints.tensor_file import DTYPES
from mtkit.training.weights import weights


def weight_types(build: Callable[[], TranslationModel]) -> Mapping[str, TensorType]:
    """Type and shape of each weight of the model that a function builds."""
    own = weights(build_on_meta(build))
    return {name: (DTYPES[tensor.dtype], tuple(tensor.shape)) for name, tensor in own.items()}


def with_weights(build: Callable[[], TranslationModel], arrays: Arrays) -> TranslationModel:
    """A model that uses the memory of these weights, which have its names, shapes and types."""
    with SkipInit(torch.device("cpu")):
        model = build()
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, array in arrays.items():
        own[name].data = torch.from_numpy(array).view(
            own[name].dtype
        )  # tied weights are one Parameter: all uses change
    return model
