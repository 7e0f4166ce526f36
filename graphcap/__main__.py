"""``python -m graphcap``: the command ``graphcap``."""

from graphcap.cli import main

if __name__ == "__main__":
    main()
