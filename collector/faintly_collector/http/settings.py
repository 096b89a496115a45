"""Settings of `faintly serve`: from flags, then FAINTLY_SERVE_ variables, then a file."""

import ipaddress
import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from faintly.errors import InvalidInput
from faintly_collector.storage.store import StoreLimits

PORT = 8790
VARIABLES = "FAINTLY_SERVE_"  # prefix of their names
DEFAULTS = StoreLimits()
DEFAULT_PORTS = {"http": ":80", "https": ":443"}  # ports that browsers omit from an origin
ADDRESS = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?")


def _parse_origin(text: str) -> str:
    """Return an origin as browsers send it: origins are compared byte by byte."""
    origin = text.lower()
    scheme, _, address = origin.partition("://")
    if scheme not in DEFAULT_PORTS or not ADDRESS.fullmatch(address):
        raise ValueError(f"{text!r} is not an origin; write https://example.org")
    return origin.removesuffix(DEFAULT_PORTS[scheme])


Origin = Annotated[str, AfterValidator(_parse_origin)]


class Settings(BaseModel):
    """The settings of one collector process; the field names are those of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Path
    host: str = "127.0.0.1"
    port: int = Field(PORT, ge=0, le=65535)
    cors: tuple[Origin, ...] = ()  # origins whose pages may call
    allow_anyone: bool = False
    proxy: bool = False  # a proxy forwards requests of others to this address
    demo: Path | None = None  # folder of a page to serve under /demo
    tls_cert: Path | None = None
    tls_key: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    connections: int = Field(4096, ge=1, le=1 << 20)  # at a time, as far as open files allow
    body_bytes: int = Field(8 << 20, ge=1024, le=1 << 30)
    inbox_bytes: int = Field(DEFAULTS.inbox_bytes, ge=1 << 20)
    waiting: int = Field(DEFAULTS.waiting, ge=1)
    seal_reports: int = Field(DEFAULTS.seal_reports, ge=1)
    seal_s: float = Field(DEFAULTS.seal_s, gt=0, allow_inf_nan=False)
    readers: int = Field(2, ge=1, le=64)  # processes that answer, each with a transform in memory
    table_bytes: int = Field(DEFAULTS.table_bytes, ge=1024)

    @field_validator("cors", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        """Split the value of a variable at its commas."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @model_validator(mode="after")
    def _check_tls(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("give both tls_cert and tls_key, or neither")
        return self

    @property
    def limits(self) -> StoreLimits:
        """Return the limits of the store."""
        return StoreLimits(**self.model_dump(include={each.name for each in fields(StoreLimits)}))

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False  # a name, or empty: every address

    @property
    def exposed(self) -> bool:
        """Return whether other machines can reach the collector."""
        return self.proxy or not self.loopback


def read_settings(file: Path | None, **flags: Any) -> Settings:
    """Return the settings of a TOML file and of flags, unless None, or raise `InvalidInput`."""
    given: dict[str, Any] = {}
    if file is not None:
        if not file.is_file():
            raise InvalidInput(f"there is no file {file}")
        try:
            given = tomllib.loads(file.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} is not TOML: {error}") from None
    for name in sorted(os.environ):
        if name.upper().startswith(VARIABLES):
            setting = name.upper().removeprefix(VARIABLES).lower()
            if setting not in Settings.model_fields:
                raise InvalidInput(f"the variable {name} is not a setting; unset or correct it")
            given[setting] = os.environ[name]
    given |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "settings"
        if place == "data" and first["type"] == "missing":
            raise InvalidInput("name the folder to keep everything in: --data DIR") from None
        raise InvalidInput(f"{place}: {first['msg']}") from None
