"""Models on disk: everything that translating raw text needs.

folder       reading and writing of model folders
config_file  config.json, with the hashes of all files
exported     folders of models exported to other inference engines
model_card   README.md of a model folder
"""
