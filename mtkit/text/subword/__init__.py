"""Subword models: sentencepiece's own and others, and the use of a model on text.

tokenizer          text to token ids and back by one subword model
alphabet           representation of characters or bytes inside a sentencepiece model
import_tokenizer   models from files: those of mtkit, sentencepiece models of other programs, BPE codes of subword-nmt
usage_report       fertility, unknown tokens and used vocabulary of each language
bpe_codes          byte-pair encoding by a file of merges, as subword-nmt applies it
word_piece         words segmented greedily into the longest pieces of a vocabulary
mapped_vocabulary  a sentencepiece model with the token ids of another vocabulary
listed_vocabulary  the vocabulary of BPE codes and of WordPiece, a list of names
new_pieces         new pieces for a model that exists
padding            unused tokens up to a multiple
setting_errors     errors about settings, by the names that they have in a recipe or on a command line
protobuf           wire format of sentencepiece model files
"""
