"""Errors for the user: bad input, in one line."""


class InputError(ValueError):
    """Bad input from outside: a file, a manifest line, a configuration key.

    The message is one line that names the file, line or key and says what to do about it.
    The command line prints it and exits with code 2; a library caller may catch it as ValueError.
    """


class TooLong(InputError):
    """A recording is longer than is allowed."""


class ParameterError(InputError):
    """A parameter has a value that cannot be used: `ParameterError("device", "no CUDA device here; use cpu")`.

    The message begins with the parameter's name; the command line puts the name of its option there instead.
    """

    def __init__(self, parameter: str, reason: str):
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter
        self.reason = reason
