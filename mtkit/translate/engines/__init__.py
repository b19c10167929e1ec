"""Engines that translate batches.

interface    the protocol, and TorchEngine: mtkit's models and search
ctranslate2  exported models, run by CTranslate2
onnx         exported models, run by onnxruntime under mtkit's search
"""
