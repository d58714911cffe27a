"""Settings that webhooks of sinks and of approval hooks share."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, model_validator

from .setting_values import parsed_object


class WebhookSettings(BaseModel):
    """An endpoint; requests are signed according to Standard Webhooks.

    secret, secret_file -- the shared key for signatures.
    """

    url: str = Field(pattern=r"^https?://")
    secret: SecretStr | None = None
    secret_file: Path | None = None
    headers: Annotated[dict[str, SecretStr], BeforeValidator(parsed_object)] = {}
    tls_ca_file: Path | None = None

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if (self.secret is None) == (self.secret_file is None):
            raise ValueError("webhook requests are signed: set secret or secret_file, not both")
        return self
