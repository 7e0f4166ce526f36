"""How other frameworks take part in streams and captures.

Only names are registered here; a hook's module is imported once the user has imported the framework itself.
"""

from graphcap.backends.base import register_framework_hook

register_framework_hook("CUDA", module="cupy", target="graphcap.interop.cupy:hook")
register_framework_hook("CUDA", module="numba.cuda", target="graphcap.interop.numba:hook", own_streams=False)
register_framework_hook("CUDA", module="cuda.core", target="graphcap.interop.cuda_core:hook", own_streams=False)
