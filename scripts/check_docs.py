"""Check what the documents claim: links and paths resolve, code prints what the page shows.

Nothing names a machine either. A `text` block right after a `python` block, with nothing between
them, is what that code prints: an example seeds its randomness to show one.

Prints one line for each finding, with file and line, and exits with 1 if there are any.
"""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`(\w[\w.-]*)/([\w./-]+)`")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)
# A letter in brackets keeps these patterns from finding themselves.
FORBIDDEN = {
    "a path of one machine": re.compile(r"/(?:work|root|farm|home/[a-z]+)/"),
    "a package registry": re.compile(
        r"py[p]i\.org|python[h]osted|npm[j]s\.(?:org|com)|https?://[^\s\"]*(?:/sim[p]le|registry\.)"
    ),
    "a folder outside the repository": re.compile(r"\.\./sha[r]ed"),
}
EXCEPTIONS = {".ci/run": "a folder outside the repository"}  # it finds the evaluation data
README_COMMANDS = ("make demo", "make test")


def tracked() -> list[Path]:
    """Return every file that is tracked, or would be after `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in sorted(set(names.split("\0"))) if name]
    return [path for path in paths if path.is_file()]


def short(path: Path) -> str:
    """Return a path as people see it from the top of the repository."""
    return path.relative_to(ROOT).as_posix()


def anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page make."""
    plain = (re.sub(r"[^\w\s-]", "", title.lower()) for title in HEADING.findall(text))
    return {re.sub(r"\s+", "-", title.strip()) for title in plain}


def check_links(path: Path) -> Iterator[str]:
    """Yield each relative link of a page that leads nowhere."""
    text = path.read_text(encoding="utf-8")
    blank = FENCE.sub(lambda block: "\n" * block.group(0).count("\n"), text)
    for match in LINK.finditer(blank):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        goal = (path.parent / name).resolve() if name else path
        line = blank.count("\n", 0, match.start()) + 1
        if not goal.exists():
            yield f"{short(path)}:{line}: the link {target} leads nowhere"
        elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8")):
            yield f"{short(path)}:{line}: {short(goal)} has no heading for #{anchor}"


def check_paths(path: Path) -> Iterator[str]:
    """Yield each path that a page quotes and that is in no folder which pages start from."""
    text = path.read_text(encoding="utf-8")
    for match in PATH.finditer(text):
        first, rest = match.groups()
        roots = (ROOT, ROOT / "src" / "faintly", ROOT / "collector")
        homes = [home for home in roots if (home / first).is_dir()]
        if (
            "your_name" in rest
            or not homes
            or any((home / first / rest).exists() for home in homes)
        ):
            continue
        line = text.count("\n", 0, match.start()) + 1
        yield f"{short(path)}:{line}: there is no {first}/{rest}"


def check_words(path: Path) -> Iterator[str]:
    """Yield each place where a file names a machine, a registry or a neighbouring folder."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # data, not words
    for what, pattern in FORBIDDEN.items():
        if EXCEPTIONS.get(short(path)) == what:
            continue
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{short(path)}:{line}: names {what} ({match.group(0)})"


def check_readme() -> Iterator[str]:
    """Yield each of the two commands that the README does not name."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    for command in README_COMMANDS:
        if command not in text:
            yield f"README.md: does not name `{command}`"


def check_code(path: Path) -> Iterator[str]:
    """Run the python blocks of a page in order, in one namespace and an empty folder."""
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for match in FENCE.finditer(text):
            if match.group(1) != "python":
                continue
            # Blank lines in front make the line numbers of an error those of the page.
            start = text.count("\n", 0, match.start(2))
            code = compile("\n" * start + match.group(2), short(path), "exec")
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(code, namespace)  # noqa: S102  the repository's own pages
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                lines = [frame.lineno for frame in frames if frame.filename == short(path)]
                yield f"{short(path)}:{lines[-1]}: {type(error).__name__}: {error}"
                return  # later blocks build on this one
            yield from check_output(path, text, match.end(), printed.getvalue())


def check_output(path: Path, text: str, end: int, printed: str) -> Iterator[str]:
    """Yield the first line of the `text` block after a code block that was not printed so."""
    block = FENCE.search(text, end)
    if block is None or block.group(1) != "text" or text[end : block.start()].strip():
        return
    start = text.count("\n", 0, block.start(2)) + 1
    shown, real = ([line.rstrip() for line in part.splitlines()] for part in (block[2], printed))
    for line, (said, seen) in enumerate(zip_longest(shown, real, fillvalue="nothing"), start):
        if said != seen:
            yield f"{short(path)}:{line}: the page shows {said!r}, the code prints {seen!r}"
            return


def findings() -> Iterator[str]:
    """Yield everything that is wrong."""
    files = tracked()
    yield from check_readme()
    for path in files:
        yield from check_words(path)
        if path.suffix == ".md":
            yield from check_links(path)
        if path.suffix == ".md" and path != ROOT / "CHANGELOG.md":  # which also names old paths
            yield from check_paths(path)
    docs = ROOT / "docs"
    runnable = [
        ROOT / "README.md",
        docs / "reference" / "api.md",
        *sorted((docs / "how-to").glob("*.md")),
    ]
    for path in runnable:
        if path.exists():
            yield from check_code(path)


def main() -> int:
    """Print the findings and return the exit status."""
    found = list(findings())
    for line in found:
        print(line)
    print(f"documents: {len(found)} findings" if found else "documents: fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
