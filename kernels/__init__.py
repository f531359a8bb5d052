"""Real kernels, which compile for sm_100a on a machine without a GPU; what can be chosen about each stands beside it."""
