"""The backends that come with graphcap, one package each; nothing here is imported until a backend is asked for."""
