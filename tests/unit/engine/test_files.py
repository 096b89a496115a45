"""Files that commands write: whole, and readable by those who may."""

import os

import pytest

from faintly.engine.files import atomic_write


@pytest.mark.parametrize(
    ("before", "private", "during", "after"),
    [(None, False, 0o640, 0o640), (0o604, False, 0o600, 0o604), (0o604, True, 0o600, 0o600)],
)
def test_a_file_keeps_its_mode_and_shows_nothing_early(tmp_path, before, private, during, after):
    path, umask = tmp_path / "file", os.umask(0o027)
    try:
        if before is not None:
            path.touch()
            path.chmod(before)
        with atomic_write(path, private=private) as stream:
            (part,) = set(tmp_path.iterdir()) - {path}
            assert part.stat().st_mode & 0o777 == during
            stream.write(b"all of it")
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == after
    assert path.read_bytes() == b"all of it"
