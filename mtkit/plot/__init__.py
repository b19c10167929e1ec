"""Figures as PNG files; needs the extra [plot].

figure     size, fonts, colours and atomic writing of a figure
curves     learning curves of runs
attention  attention map of one translation
by_length  BLEU by source length
positions  position encodings
gradients  gradient of the loss over distance
"""
