"""Translation by machine code: encoder, decoder step and search, compiled for the processor at hand.

Where a C compiler is installed, the sources in `c/` are compiled once per machine, in a few seconds, into a library in
the user's cache. Without one, or with MTKIT_NATIVE=0, everything here stands aside and torch computes. The code serves
common Transformers; when a model is loaded, its results are compared with those of the layers as written.

library     compilation and loading of the library
structures  the library's structures and functions
packing     packed weights
threads     a product or a step on several threads
state       memory and cache of a decoder
linear      a projection, also of models whose layers the library lacks
output      the output projection
layers      the layers that are served, and their structures
model       the model as search sees it
search      plain beam search and greedy search as a whole
"""
