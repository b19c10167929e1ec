"""Recurrent models: an encoder RNN and a decoder RNN.

seq2seq   Seq2SeqRNN, one fixed vector for the whole source (Sutskever et al. 2014)
base      AttentionalRNN: encoder, bridge and decoder cache of the models with attention
bahdanau  BahdanauRNN, attention before each decoder step (Bahdanau et al. 2015)
luong     LuongRNN and InputFeedingRNN, attention after each decoder step (Luong et al. 2015)
config    recipe keys of all of them
"""
