"""Entry point: ``python -I -B -m promptlab_adapter``."""

from promptlab_adapter.main import main

if __name__ == "__main__":
    main()
