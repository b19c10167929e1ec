"""Models on disk: everything that translating raw text needs.

folder      reading and writing of model folders
exported    folders of models exported to other inference engines
model_card  README.md of a model folder
"""
