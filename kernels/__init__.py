"""Real kernels, which compile for sm_100a on a machine without a GPU; the choices of each stand beside it."""
