"""Import of models of other programs as model folders.

import_model    the procedure: folder of another program -> model folder
registry        the architectures, by the name that their config.json gives
architecture    what the file of an architecture states: configuration, weights, tokenizers
bart_layers     names of weights and keys that Marian, M2M-100 and BART have in common
marian_npz      models as Marian writes them, as a folder of Hugging Face's layout
marian          Marian and OPUS-MT in the layout of Hugging Face
m2m100          M2M-100 and NLLB in the layout of Hugging Face
mbart           mBART of 50 languages in the layout of Hugging Face
vocabulary      vocabularies of other programs as tokenizers of mtkit
generation      settings of generation -> a search
foreign_folder  reading of config.json, vocabularies, weights and the model card
hub             models by name from the hub of Hugging Face
torch_file      tensors of pytorch_model.bin, without running what is in it
"""
