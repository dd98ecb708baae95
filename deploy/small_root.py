"""Takes out of the root of a Debian what Python does not need: package managers, Perl, manuals, translations.

What stays is listed in /var/lib/dpkg/status, where scanners of images look, with its licences in /usr/share/doc.
Runs while an image is built, and never elsewhere.
"""

import compileall
import re
import shutil
import sysconfig
from pathlib import Path
from py_compile import PycInvalidationMode

DPKG = Path("/var/lib/dpkg")
WANTED = {"python3", "libstdc++6", "coreutils", "dash", "base-files", "ca-certificates", "tzdata"}
NOT_FOLLOWED = {"debconf", "dpkg", "openssl"}  # they only install and configure
FOLDERS = ["usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl*"]
FOLDERS += ["usr/lib/*-linux-gnu/perl*", "usr/lib/*-linux-gnu/gconv", "var/lib/apt", "var/cache/*", "var/log/*"]
FOLDERS += ["var/lib/dpkg/[!s]*", "var/lib/dpkg/s[!t]*", "var/lib/dpkg/status-*"]


def stanzas() -> dict[str, str]:
    """What dpkg knows of each package that is installed."""
    texts = (DPKG / "status").read_text().strip().split("\n\n")
    return {field(text, "Package"): text for text in texts if " installed" in field(text, "Status")}


def field(stanza: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", stanza, re.MULTILINE)
    return found[1] if found else ""


def needed(installed: dict[str, str]) -> set[str]:
    """The wanted packages and those that they depend on."""
    providers = {
        name: package for package, text in installed.items() for name in re.split(r",? ", field(text, "Provides"))
    }
    found: set[str] = set()
    waiting = WANTED & installed.keys()
    while waiting:
        found.add(package := waiting.pop())
        depends = field(installed[package], "Depends") + ", " + field(installed[package], "Pre-Depends")
        names = {re.sub(r"[ :(].*", "", each.strip()) for each in re.split(r"[,|]", depends)}
        packages = {name if name in installed else providers.get(name, "") for name in names} & installed.keys()
        waiting |= packages - found - NOT_FOLLOWED
    return found


def files(package: str) -> set[Path]:
    """Those of a package that are no folders, by their true places: /bin is /usr/bin."""
    lists = [*DPKG.glob(f"info/{package}.list"), *DPKG.glob(f"info/{package}:*.list")]
    paths = [Path(line) for each in lists for line in each.read_text().splitlines()]
    return {path.parent.resolve() / path.name for path in paths if path.is_symlink() or path.is_file()}


def main() -> None:
    installed = stanzas()
    kept = needed(installed)
    stays = set().union(*map(files, kept))
    for package in installed.keys() - kept:
        for path in files(package) - stays:
            path.unlink(missing_ok=True)
    (DPKG / "status").write_text("\n\n".join(installed[package] for package in sorted(kept)) + "\n\n")
    for pattern in FOLDERS:
        for path in Path("/").glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in Path("/usr/share/doc").glob("*/*"):
        if path.name != "copyright" and not path.is_symlink():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # With the hash of a source instead of its time: the same packages give the same files.
    library = sysconfig.get_path("stdlib")
    compileall.compile_dir(library, force=True, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    print(*sorted(kept))


if __name__ == "__main__":
    main()
