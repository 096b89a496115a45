"""The collector's yardstick: stock uvicorn that reads the body and answers 200."""

import socket

import uvicorn
from starlette.types import Receive, Scope, Send

BODY = b'{"status":"counted","reports":1}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]


async def bare(_: Scope, receive: Receive, send: Send) -> None:
    """Serve one request."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


def main() -> None:
    """Serve on any port, and print it."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        bare,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
