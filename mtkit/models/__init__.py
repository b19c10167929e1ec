"""Model families: a batch -> decoder states (training), `start` and `step` (search).

interface      TranslationModel, the base of all models; decoder state and losses
capabilities   ModelConfigBase, the base of a family's configuration
config         the union of families that a recipe can name
allow_list     Transformers that exporters and the fast road compute
skip_init      models without random initialisation, and models with shapes only
embeddings     source, target and output embeddings, tied as the recipe says
mismatches     weights that a model does not share with a file, for messages
transformer/   encoder-decoder Transformer
decoder_only/  one Transformer stack that reads the source and continues with the target
rnn/           recurrent models without attention, with Bahdanau's and with Luong's

Template of a new family: tests/toy/new_kinds/bag_of_words/.
"""
