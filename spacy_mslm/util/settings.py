"""Checks of numbers that a user sets. Each raises a ValueError that names the setting."""


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise a ValueError if a number is below `least`, or NaN."""
    if not value >= least:
        raise ValueError(f"{name} is {value}, but must be {least} or more.")


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Raise a ValueError if a number is below `low`, above `high`, or NaN."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, but must be between {low} and {high}.")
