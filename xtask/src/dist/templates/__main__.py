"""Runs the program of this package: ``python -m opgate``."""

import os
import subprocess
import sys
import sysconfig


def find_program() -> str:
    """Returns the path of the program, which pip installs next to Python's scripts."""
    name = "opgate" + (sysconfig.get_config_var("EXE") or "")
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    # `pip install --target` has a directory of its own.
    directories = [sysconfig.get_path("scripts", scheme) for scheme in schemes]
    directories.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"))
    for directory in directories:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(name)


if __name__ == "__main__":
    arguments = [find_program(), *sys.argv[1:]]
    if os.name == "posix":
        # The program replaces Python, and gets all signals.
        os.execv(arguments[0], arguments)
    sys.exit(subprocess.run(arguments, check=False).returncode)
