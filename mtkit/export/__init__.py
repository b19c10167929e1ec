"""Export of trained models to other inference engines.

supported_models  allow lists: the configurations that each target supports
ctranslate2       model folder -> folder for CTranslate2
ctranslate2_spec  weights of a Transformer in CTranslate2's model specification
onnx              model folder -> encoder and decoder step in the ONNX format
engine            choice of the engine of a translation, and the export that is kept beside a model
equivalence       comparison of the translations of both engines
"""
