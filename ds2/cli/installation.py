"""ds2 doctor, warmup: what is installed, what is missing, and preparing the first run."""

from ds2.cli.exits import SOME_FAILED


def doctor_command() -> int:
    """Check the installation, and show how to fix it.

    Example: ds2 doctor
    """
    from ds2.cli.doctor import check

    findings = list(check())
    for finding in findings:
        print(f"{'ok' if not finding.mend else finding.severity:8} {finding.name:12} {finding.state}")
        if finding.mend:
            print(f"{'':21} {finding.mend}")
    return SOME_FAILED if any(finding.severity == "broken" for finding in findings) else 0


def warmup_command(library: bool = False) -> int:
    """Compile the kernels now, so that the first run starts at once.

    Example: ds2 warmup

    Args:
        library: Also link those of transcription into one library. With it ds2 starts without numba, 0.25 s sooner.
            Needs a compiler of C++, Python's headers and setuptools.
    """
    import logging
    import time

    from ds2.recognition.warm_up import warm_up

    logging.getLogger("ds2").setLevel(logging.ERROR)  # the words that each model knows are no news here
    print("compiling what is not compiled yet: a minute on an idle processor, several on a busy one", flush=True)
    began = time.monotonic()
    for ready in warm_up(library):
        print(f"{ready}: ready after {time.monotonic() - began:.1f} s", flush=True)
    return 0
