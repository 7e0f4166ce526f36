"""CuPy's own tests on the emulated device: read from the sdist, copied nowhere.

``tests.json`` is the fixed list of files and what is expected to fail in them, by cause; ``run.py`` runs it
(``python -m tests.cupy.upstream.run``); ``plugin.py`` is what it puts into each run of pytest.
"""
