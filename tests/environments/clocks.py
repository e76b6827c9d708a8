"""Wrong clocks for some of the processes. See `wrong_clock/sitecustomize.py`."""

from pathlib import Path

HOUR = 3600
FOLDER = Path(__file__).with_name("wrong_clock")


class WrongClock:
    """The host's clock of the processes with this `env`."""

    def __init__(self, file: Path, seconds: int = 0) -> None:
        self._file = file
        self.jump(seconds)
        self.env = {"PYTHONPATH": str(FOLDER), "WRONG_CLOCK": str(file)}

    def jump(self, seconds: int) -> None:
        """Be wrong by so much from now on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.replace(self._file)
