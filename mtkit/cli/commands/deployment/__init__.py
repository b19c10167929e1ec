"""Commands: deployment.

compress  smaller copies of a model
export    models for other inference engines
import_   models of other programs
serve     translations over HTTP
"""
