"""Models on disk: everything that translating raw text needs.

folder             reading and writing of model folders
build_model        the model of a folder as layers/ and models/ have written it
config_file        config.json, with the hashes of all files
safetensors_file   arrays that map a file in the safetensors format
weights_file       weights: checked against the model, then memory-mapped
quantised_weights  weights in 8 and 4 bits: formats and reading
quantise           writing them
find_tokenizer     tokenizer of a model file, a model folder or a run folder
adapter_folder     adapters in the layout of PEFT
model_card         README.md of a model folder; copies of a model with other weights or settings
"""
