"""Export of trained models to other inference engines.

supported_models  allow lists: the configurations that each target supports
ctranslate2       model folder -> folder for CTranslate2
ctranslate2_spec  weights of a Transformer in CTranslate2's model specification
ctranslate2_runner  translation by CTranslate2, for the check and for `mtkit bench --peer`
onnx              model folder -> encoder and decoder step in the ONNX format
onnx_runner       greedy search over the ONNX graphs, for the check
equivalence       comparison of an export's translations with the model's
"""
