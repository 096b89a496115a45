"""Limits of the HTTP interface that are not settings: bytes, counts and times.

Other modules use them through this one, so each has one definition and one value.
"""

# Connections.
HEAD_BYTES = 65_536  # of a request's line and headers, or of what follows its body
REFUSED_BODY_BYTES = 2 << 30  # read from a refused body before the connection is used again
ARRIVE_S = 60.0  # how long a request may take to arrive, and a connection to send its first
STALL_S = 60.0  # how often to check that an answer is being read
STALL_BYTES = 1 << 20  # that must have been sent since; a slow line sends ten times as many
REFUSED_CONNECTIONS = 64  # above the limit that get an answer saying so
REFUSAL_S = 1.0  # how long they have to read it
KEEP_ALIVE_S = 20  # how long a connection may be idle after an answer
DRAIN_S = 30  # how long open requests may take once the collector is stopping
BACKLOG = 2048  # connections that the system holds until they are accepted
OWN_FILES = 256  # open files that are not connections: databases, segments, sketches, downloads

# Memory and processor time of the main process.
REPORT_BYTES = 256 << 20  # of report bodies that are being received, checked or committed
CONTROL_BYTES = 128 << 20  # of all other bodies, until they are answered
THREAD_BYTES = 1 << 20  # larger bodies are checked in a thread, to keep the event loop free
SHORT_BYTES = 8 << 10  # of JSON that this process parses itself; readers parse the rest
CHUNK_BYTES = 256 << 10  # of an answer, at a time
SESSION_S = 12 * 3600.0  # a day's work; then the page asks for the credential again
SESSIONS = 1000  # at a time; beyond that, the oldest session ends

# Queries and collections.
WAITING = 64  # queries that may wait for a reader,
WAIT_S = 10.0  # and for how long
DOWNLOADS = 16  # sketches downloaded at a time: each takes up its size on the disk
DOWNLOAD_CHUNK_BYTES = 1 << 20  # of a sketch, read at a time
KEYS = 100_000  # per query
HISTORY_KEYS = 1_000  # per query, in each epoch
CELLS = 100_000  # keys times epochs of a history: the most rows of any answer
HISTORY_BYTES = 32 << 20  # that many rows take about 20 MiB, unless keys are long
LISTED_KEYS = 2**24  # keys that a top list scans, using about half a gigabyte
URL_KEYS = 20  # per query in an address, which is part of the head,
URL_KEY_LENGTH = 1_000  # and characters of each
KEY_LENGTH = 65_536  # characters of a key in a body
NAME_LENGTH = 200  # characters of a collection's name
EPOCHS = 1_000  # that a new collection opens
CREDENTIAL_LENGTH = 1_000  # characters of a credential in a sign-in
