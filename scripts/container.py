"""Build the image of packaging/Containerfile, start its collector, and stop it.

Where no docker or podman can build, its steps are run in a Debian tree that debootstrap makes. That
needs root, and the Python is then Debian's and not that of the base image.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "packaging" / "Containerfile"
PORT = "8790"  # of the command in that file
# How this machine reaches packages; the tree needs the same.
SETTINGS = (
    "/etc/pip.conf",
    f"{Path.home()}/.config/pip",
    "/etc/ssl/certs",
    "/etc/apt",
    "/etc/resolv.conf",
)
PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"


def run(*command: str) -> None:
    """Run a command, and end with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def builder() -> str | None:
    """Return a program that can build images here."""
    for name in ("docker", "podman"):
        if shutil.which(name):
            asked = subprocess.run([name, "ps"], capture_output=True, check=False)
            if asked.returncode == 0:
                return name
    return None


def steps() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the file and what they are given."""
    text = FILE.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def copy_here(tree: Path, folder: str, given: str) -> None:
    """Copy files of the repository into the tree; what another stage made is there already."""
    if given.startswith("--from="):
        return
    *sources, target = given.split()
    goal = tree / folder.lstrip("/") / target
    for name in sources:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, goal, dirs_exist_ok=True)
        else:
            goal.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, goal)


def build_tree(tree: Path) -> list[str]:
    """Run the steps in a new tree; return what runs a command of the image as its user."""
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "stable", str(tree))
    for name in filter(os.path.exists, SETTINGS):
        parent = tree / Path(name).parent.relative_to("/")
        parent.mkdir(parents=True, exist_ok=True)
        run("cp", "--archive", "--remove-destination", name, str(parent))
    folder, user, program = "/", "root", []
    for word, given in steps():
        if word == "RUN":
            run("chroot", str(tree), "sh", "-ec", f"cd {folder}; {given}")
        elif word == "WORKDIR":
            folder = given
            (tree / given.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            copy_here(tree, folder, given)
        elif word == "USER":
            user = given
        elif word == "ENTRYPOINT":
            program = json.loads(given)
    return ["chroot", f"--userspec={user}", str(tree), *program]


def free_port() -> str:
    """Return a port that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def check_alive(port: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait for the collector's first answer."""
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                print(answer.read().decode())
                return
        except OSError:
            time.sleep(0.25)
    sys.exit("the collector of the image does not answer")


def main() -> None:
    """Build, start, ask, stop."""
    port, program = free_port(), builder()
    command = next(json.loads(given) for word, given in steps() if word == "CMD")
    with tempfile.TemporaryDirectory() as scratch:
        if program:
            run(program, "build", "-f", str(FILE), "-t", "faintly", str(ROOT))
            inside = [
                program,
                "run",
                "--rm",
                "-v",
                "faintly-check:/data",
                "-p",
                f"{port}:{PORT}",
                "faintly",
            ]
        else:
            print("no docker or podman that builds: the steps run in a tree of debootstrap's")
            inside = build_tree(Path(scratch) / "tree")
            command = [port if word == PORT else word for word in command]
        # Without a credential a collector that others reach does not start.
        run(*inside, "credential", "add", "operator", "--role", "admin", "--data", "/data")
        process = subprocess.Popen([*inside, *command], stdout=sys.stderr)
        try:
            check_alive(port, process)
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(120)
    if status:
        sys.exit(f"the collector of the image ended with status {status}")
    print("image: built, its collector answered and ended on SIGTERM")


if __name__ == "__main__":
    if os.name != "posix":
        sys.exit("the image is for Linux")
    main()
