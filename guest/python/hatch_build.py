"""Copies the contract into the package. There is one file of it in the repository, `wit/policy.wit`."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Contract(BuildHookInterface):  # type: ignore[type-arg]
    """In the repository the contract is above this directory; an unpacked sdist contains it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        contract = Path(self.root, "../../wit/policy.wit").resolve()
        if contract.is_file():
            place = "src/opgate_policy" if self.target_name == "sdist" else "opgate_policy"
            build_data["force_include"][str(contract)] = f"{place}/policy.wit"
