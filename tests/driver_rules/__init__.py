"""Tests of the rules that a CUDA driver keeps about capture and graphs, each citing its source.

They speak to the driver through the unmodified ``cuda.bindings.driver`` and know nothing of who answers: an emulated
driver or a real one (``GRAPHCAP_TEST_DRIVER``). They are written from the evidence, so on a real driver a failure
contradicts a rule rather than revealing a mistake of an implementation.
"""
