"""Functions that the exported program calls at run time.

Each is a plain module-level function: its arguments are tensors, lists of tensors, and ints, floats, bools, strings, None or
nested tuples of them, so that FX can print the call. All communication is `torch.ops._c10d_functional` (group given by name)
inside `torch.autograd.Function`s, so AOTAutograd sees ATen and functional collectives only, in both graphs.

layout       what a cut is; rows first; pieces put together
collectives  the raw collectives, and `tie`
conversions  changes of form with the right gradient, except S(f) -> S(g)
exchange     S(f) -> S(g): the all-to-all
attention    scaled dot-product attention on local heads or local queries
loss         cross-entropy over cut rows
counting     bincount of a known size
dropout      dropout whose mask depends on the global position only
"""
