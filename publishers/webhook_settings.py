"""Settings that webhooks of sinks and of approval hooks share."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, model_validator

from .setting_values import parsed_object


class WebhookSettings(BaseModel):
    """An endpoint, signed to as Standard Webhooks says.

    secret, secret_file -- what both sides sign with.
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
