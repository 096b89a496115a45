"""Routes of files: the plan, the list of sealed files, the sketch."""

import tempfile
import threading
import weakref
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from faintly.collector.http import models
from faintly.collector.http.admission import Job
from faintly.collector.http.routes import (
    OCTETS,
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    epoch_of,
    json_reply,
    refusals,
    require,
)
from faintly.collector.problems import BUSY, Problem, no_room
from faintly.collector.storage.status import segments_of
from faintly.core import Sketch
from faintly.wire.sketch_v1 import write_sketch

FOREVER = "public, max-age=31536000, immutable"
PIECE = 1 << 20  # bytes read at a time
DOWNLOADS = 16  # sketches downloaded at a time: each takes its size on the disk


def file_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["files"])
    store = service.store
    spool = Spool(store.folder / "spool")

    @router.get(
        TEMPLATE + "/plan",
        dependencies=[require(service, "plan")],
        responses=refusals(404)
        | {
            200: {
                "description": "The canonical JSON that the digest is taken of.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            304: {"description": "The asker has it already."},
        },
        summary="Fetch the plan",
        response_model=None,
    )
    def fetch_plan(
        digest: Digest, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        plan = store.registry.collection(bytes.fromhex(digest)).plan
        headers = {"etag": f'"{digest}"', "cache-control": FOREVER}
        if if_none_match is not None and f'"{digest}"' in if_none_match:
            return Response(status_code=304, headers=headers)
        return Response(plan.canonical, media_type="application/json", headers=headers)

    @router.get(
        TEMPLATE + "/segments",
        dependencies=[require(service, "read")],
        response_model=models.Segments,
        responses=refusals(404, 503),
        summary="List the sealed files",
    )
    def list_segments(digest: Digest) -> Response:
        rows = segments_of(store, bytes.fromhex(digest))
        return json_reply({"segments": [asdict(each) for each in rows]})

    @router.get(
        TEMPLATE + "/sketch",
        dependencies=[require(service, "read")],
        responses=refusals(404, 409, 429, 503)
        | {
            200: {
                "description": "A sketch file, as faintly query and faintly merge read it.",
                "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
        summary="Download the sketch",
        response_model=None,
        response_class=Response,
    )
    async def fetch_sketch(digest: Digest, request: Request, epoch: EpochQuery = None) -> Response:
        name = bytes.fromhex(digest)

        def write(_: Job) -> IO[bytes]:
            chosen = store.registry.latest(name) if epoch is None else epoch_of(epoch)
            return spool.put(store.sketches.sketch(name, None if chosen == "all" else chosen))

        file = await service.admission.run(request, write)
        headers = {"content-length": str(file.seek(0, 2))}
        return StreamingResponse(_pieces(file), media_type=OCTETS, headers=headers)

    return router


class Spool:
    """Unnamed temporary files, so that downloads take disk instead of memory."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._files: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()

    def put(self, sketch: Sketch) -> IO[bytes]:
        """Return an open file of a sketch, which takes a slot until it is closed."""
        with self._lock:
            if sum(not each.closed for each in self._files) >= DOWNLOADS:
                raise Problem(BUSY, "too many sketches are being downloaded")
            file = self._open()
            self._files.add(file)
        try:
            write_sketch(sketch, file)  # type: ignore[arg-type]  # typeshed asks for BinaryIO
            file.flush()
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                raise no_room() from None
            raise
        return file

    def _open(self) -> IO[bytes]:
        try:
            return tempfile.TemporaryFile(dir=self._folder)
        except OSError:
            raise no_room() from None


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
