"""Export of trained models to other inference engines.

supported_models  allow lists: the configurations that each target supports
ctranslate2       model folder -> folder for CTranslate2; translation by it, for the check and for `mtkit bench --peer`
ctranslate2_spec  weights of a Transformer in CTranslate2's model specification
huggingface       model folder -> MarianMTModel of the package transformers; translation by it, for the check
argos             model folder -> package of Argos Translate
onnx              model folder -> encoder and decoder step in the ONNX format; greedy search over them, for the check
equivalence       comparison of an export's translations with the model's
"""
