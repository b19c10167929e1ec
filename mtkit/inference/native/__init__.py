"""Translation by machine code: encoder, decoder step and search in C, for several instruction sets.

The sources in `c/` are compiled when a wheel is made (hatch_build.py), into the folder `compiled/`. Without a library,
or with MTKIT_NATIVE=0, everything here stands aside and torch computes. The code serves common Transformers; when a
model is loaded, its results are compared with those of the layers as written.

library     loading of the library
sources     hashes of the sources that the library is compiled from
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
