"""The network fails in every way it can; a request is repeated under its own name, or refused."""

import http.server
import json
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest

from faintly import Policy, make_plan
from faintly.client.transport import Connection
from faintly.errors import InvalidInput, PlanRefused, SendFailed

PLAN = make_plan(protect="event", epsilon=1, sparsity=2, clients=10, universe=8)
BODY = bytes(range(200, 230))
KEPT = (200, {}, b'{"status": "counted", "reports": 1}')


class Server(http.server.ThreadingHTTPServer):
    """Gives the answers it was told to give, one after another, and remembers the questions."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.seen = list(answers), []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        size = int(self.headers.get("Content-Length", 0))
        self.server.seen.append((self.path, dict(self.headers), self.rfile.read(size)))
        told = self.server.answers.pop(0)
        if told == "hang up":
            self.close_connection = True
            return
        status, headers, body = told(self) if callable(told) else told
        self.send_response(status)
        length = len(body) + (5 if headers.get("cut") else 0)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = bool(headers.get("cut"))

    do_GET = do_POST = answer  # noqa: N815  the names are http.server's

    def log_message(self, *_):
        pass


def connection(server, pauses=None, **options):
    return Connection(server.url, pause=(pauses if pauses is not None else []).append, **options)


def refusal(made, **options):
    with pytest.raises(SendFailed) as refused:
        made.send(PLAN.digest, BODY, **options)
    return refused.value


def test_a_request_is_repeated_under_its_own_name():
    pauses = []
    busy = (429, {"Retry-After": "7"}, b'{"code": "BUSY", "message": "", "hint": ""}')
    failing = ["hang up", busy, (503, {}, b""), (502, {}, b"<html>"), (200, {"cut": "1"}, b"{}")]
    with Server(*failing, KEPT) as server, connection(server, pauses) as made:
        receipt = made.send(PLAN.digest, BODY, epoch=3, token="abc")
    assert (receipt.reports, receipt.replayed) == (1, False)
    assert len({path for path, _, _ in server.seen}) == 1
    assert f"/v1/collections/{PLAN.digest.hex()}/reports?request=" in server.seen[0][0]
    assert server.seen[0][0].endswith("&epoch=3")
    assert {body for _, _, body in server.seen} == {BODY}
    assert {headers["Faintly-Token"] for _, headers, _ in server.seen} == {"abc"}
    assert len(pauses) == len(failing)
    assert 7 < pauses[1] < 8, "what the server asked for, and a little of our own"
    assert 0.125 <= pauses[0] <= 0.25


def test_names_are_fresh_and_random():
    with Server(*[KEPT] * 20) as server, connection(server) as made:
        for _ in range(20):
            made.send(PLAN.digest, BODY)
    names = {path.partition("request=")[2][:32] for path, _, _ in server.seen}
    assert len(names) == 20
    assert all(len(set(bytes.fromhex(name))) > 4 for name in names)


def test_a_name_that_was_kept_is_used_again():
    replayed = (200, {}, b'{"status": "replayed", "reports": 2}')
    with Server(replayed) as server, connection(server, credential="secret") as made:
        receipt = made.send(PLAN.digest, BODY, request=bytes(16))
    assert receipt.replayed
    assert "request=" + "00" * 16 in server.seen[0][0]
    assert server.seen[0][1]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 410, 413])
def test_a_refusal_is_final_and_says_its_code_alone(status):
    def echo(handler):
        sent = handler.server.seen[-1]
        told = {"code": "CLOSED", "message": sent[2].hex() + sent[0] + str(sent[1]), "hint": ""}
        return status, {"Location": "/elsewhere"}, json.dumps(told).encode()

    pauses = []
    with Server(echo) as server, connection(server, pauses, credential="s3cret") as made:
        refused = refusal(made, token="t0ken")
    assert refused.code == "CLOSED"
    assert str(refused) == f"the collector answered {status} CLOSED"
    assert not pauses


def test_the_reason_is_apart_from_the_message_and_printable():
    told = {"code": "CLOSED", "message": "epoch 3\x1b[2J is closed" + "." * 1000, "hint": ""}
    with Server((410, {}, json.dumps(told).encode())) as server, connection(server) as made:
        refused = refusal(made)
    assert "epoch" not in str(refused)
    assert refused.reason.startswith("epoch 3?[2J is closed...")
    assert len(refused.reason) == 300


@pytest.mark.parametrize(
    "code", [b'"closed"', b'"A B"', b"7", b"null", b'"' + b"A" * 60 + b'"', b'"<b>"']
)
def test_a_code_that_is_none_is_not_repeated(code):
    with Server((400, {}, b'{"code": ' + code + b"}")) as server, connection(server) as made:
        refused = refusal(made)
    assert refused.code == "HTTP_400"


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Welcome to the hotel</html>",
        b"",
        b"[]",
        b'{"status": "counted"}',
        b'{"status": "lost", "reports": 1}',
        b'{"status": "counted", "reports": true}',
    ],
)
def test_another_page_that_answers_200_is_no_receipt(body):
    with Server((200, {}, body)) as server, connection(server) as made:
        refused = refusal(made)
    assert refused.code == "NOT_A_COLLECTOR"


def test_nobody_answers():
    with Server() as server:
        url = server.url
    pauses = []
    with Connection(url, retries=3, pause=pauses.append) as made:
        refused = refusal(made)
    assert refused.code == "UNREACHABLE"
    assert "4 attempt" in str(refused)
    assert len(pauses) == 3
    assert BODY.hex() not in str(refused)


def test_a_server_that_asks_for_hours_is_not_waited_for():
    pauses = []
    with Server((503, {"Retry-After": "9999"}, b"")) as server, connection(server, pauses) as made:
        refusal(made)
    assert not pauses


def test_a_plan_comes_under_a_policy():
    document = (200, {}, PLAN.canonical)
    digest = PLAN.digest.hex()
    with Server(*[document] * 4) as server, connection(server) as made:
        assert made.plan(digest, Policy.within(epsilon=1, units=["event"])) == PLAN
        assert made.plan(PLAN.digest, Policy.pinned(digest)) == PLAN
        with pytest.raises(PlanRefused, match="policy allows"):
            made.plan(digest, Policy.within(epsilon=0.5, units=["event"]))
        with pytest.raises(PlanRefused, match="needs a policy"):
            made.plan(digest, None)


def test_another_plan_than_the_one_asked_for_is_refused():
    policy = Policy.within(epsilon=1, units=["event"])
    with Server((200, {}, PLAN.canonical), (200, {}, b"{}")) as server, connection(server) as made:
        with pytest.raises(PlanRefused, match="other than the one requested"):
            made.plan("00" * 16, policy)
        with pytest.raises(PlanRefused, match="not a valid plan"):
            made.plan("00" * 16, policy)


@pytest.mark.parametrize("secret", ["", "a b", "a\r\nX-Evil: 1", "ä", "a\x00"])
def test_a_secret_cannot_smuggle_a_header(secret):
    with pytest.raises(InvalidInput):
        Connection("http://127.0.0.1:1", credential=secret)
    with Connection("http://127.0.0.1:1") as made, pytest.raises(InvalidInput):
        made.send(PLAN.digest, BODY, token=secret)


@pytest.mark.parametrize(
    "server",
    ["", "collect.example", "ftp://a", "http://", "http://u:p@h", "http://h?x", "http://h:x"],
)
def test_an_address_that_is_none_is_refused(server):
    with pytest.raises(InvalidInput):
        Connection(server)


@pytest.mark.parametrize(
    "server",
    [f"http://{'a' * 70}.example", "http://a..b", "http://a b", "http://h/\u00e9", "http://h/a b"],
)
def test_a_name_that_cannot_be_sent_is_refused(server):
    with pytest.raises(InvalidInput, match="a server is an address"):
        Connection(server)


@pytest.mark.parametrize(
    "server", ["http://[::1]:80", "https://b\u00fccher.example/x", "http://a."]
)
def test_a_name_that_can_is_not(server):
    Connection(server).close()


def test_a_path_in_front_is_kept():
    with Server(KEPT) as server, Connection(server.url + "/faintly/") as made:
        made.send(PLAN.digest, BODY)
    assert server.seen[0][0].startswith("/faintly/v1/collections/")


@pytest.fixture
def self_signed(tmp_path):
    """A certificate for 127.0.0.1 that nobody vouches for."""
    from ipaddress import IPv4Address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "faintly test")])
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = tmp_path / "server.pem"
    pkcs8 = serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, pkcs8, plain) + signed.public_bytes(pem))
    return file


def test_a_certificate_is_checked_unless_it_is_trusted(self_signed):
    with Server(KEPT) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        pauses = []
        with Connection(url, pause=pauses.append) as made:
            refused = refusal(made)
        assert refused.code == "UNREACHABLE"
        assert "certificate" in str(refused)
        assert not pauses, "a stranger is not asked again"
        assert not server.seen
        trusted = ssl.create_default_context(cafile=self_signed)
        with Connection(url, tls=trusted) as made:
            assert made.send(PLAN.digest, BODY).reports == 1
