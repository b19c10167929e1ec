"""Engines that translate batches.

interface     the protocol, and TorchEngine: mtkit's models and search
batch_budget  batches within a budget of tokens, in halves where memory runs out
ctranslate2   exported models, run by CTranslate2
onnx          exported models, run by onnxruntime under mtkit's search
"""
