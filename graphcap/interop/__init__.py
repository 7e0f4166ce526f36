"""How other frameworks take part in streams and captures.

Only names are registered here; a hook's module is imported once the user has imported the framework itself.
"""

from graphcap.backends.base import register_framework_hook

register_framework_hook("CUDA", module="cupy", target="graphcap.interop.cupy:hook")
