"""Import of models of other programs as model folders.

import_model    the procedure: folder of another program -> model folder
marian_npz      models as Marian writes them, as a folder of Hugging Face's layout
architectures/  what is known of each architecture
vocabulary      vocabularies of other programs as tokenizers of mtkit
generation      settings of generation -> a search
foreign_folder  reading of config.json, vocabularies, weights and the model card
hub             models by name from the hub of Hugging Face
torch_file      tensors of pytorch_model.bin, without running what is in it
"""
