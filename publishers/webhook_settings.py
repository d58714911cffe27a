"""Settings that webhooks of sinks and of approval hooks share."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr, model_validator

from .setting_values import parsed_object


def _http_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return value


class WebhookSettings(BaseModel):
    """An endpoint; requests are signed according to Standard Webhooks.

    secret, secret_file -- the shared key for signatures.
    """

    url: Annotated[str, AfterValidator(_http_url)]
    secret: SecretStr | None = None
    secret_file: Path | None = None
    headers: Annotated[dict[str, SecretStr], BeforeValidator(parsed_object)] = {}
    tls_ca_file: Path | None = None

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if self.secret is None and self.secret_file is None:
            raise ValueError("secret or secret_file is required: it has the key for the signatures of requests")
        if self.secret is not None and self.secret_file is not None:
            raise ValueError("secret and secret_file are both set: set one of them")
        return self
