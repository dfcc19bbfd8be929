"""The process: Ctrl-C is ours before anything that takes time is imported."""

import os
import signal


def main() -> None:
    signal.signal(signal.SIGINT, _interrupted)
    from kvtool.cli import app

    app.main()


def _interrupted(_signal: int, _frame: object) -> None:
    """There is nothing to close yet; 130 is `kvtool.cli.interrupt.INTERRUPTED`."""
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    main()
