"""Recurrent models: an encoder RNN and a decoder RNN.

seq2seq      Seq2SeqRNN, one fixed vector for the whole source (Sutskever et al. 2014)
attentional  BahdanauRNN, attention before each decoder step; LuongRNN and InputFeedingRNN, attention after it
config       recipe keys of all of them
"""
