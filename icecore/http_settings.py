"""The limits of requests and responses that operators can set."""

from pydantic import BaseModel, ConfigDict, Field

from .api.limits import DEFAULT_LIMITS


class HttpSettings(BaseModel):
    """Limits of one request and one response; api/limits.py explains them."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", frozen=True, hide_input_in_errors=True)

    body_seconds_max: float = Field(default=DEFAULT_LIMITS.body_seconds_max, gt=0)
    stall_seconds_max: float = Field(default=DEFAULT_LIMITS.stall_seconds_max, gt=0)
    response_rate_min: int = Field(default=DEFAULT_LIMITS.response_rate_min, ge=0)
    connections_max: int = Field(default=DEFAULT_LIMITS.connections_max, ge=1)
    body_memory_bytes_max: int = Field(default=DEFAULT_LIMITS.body_memory_bytes_max, ge=0)
    response_memory_bytes_max: int = Field(default=DEFAULT_LIMITS.response_memory_bytes_max, ge=0)
    json_depth_max: int = Field(default=DEFAULT_LIMITS.json_depth_max, ge=16, le=512)
    json_values_max: int = Field(default=DEFAULT_LIMITS.json_values_max, ge=1_000)
    properties_max: int = Field(default=DEFAULT_LIMITS.properties_max, ge=1)
    property_key_bytes_max: int = Field(default=DEFAULT_LIMITS.property_key_bytes_max, ge=64)
    property_value_bytes_max: int = Field(default=DEFAULT_LIMITS.property_value_bytes_max, ge=256)
    updates_max: int = Field(default=DEFAULT_LIMITS.updates_max, ge=1)
    requirements_max: int = Field(default=DEFAULT_LIMITS.requirements_max, ge=1)
    table_changes_max: int = Field(default=DEFAULT_LIMITS.table_changes_max, ge=1)
    report_bytes_max: int = Field(default=DEFAULT_LIMITS.report_bytes_max, ge=1_024)
    gzip_bytes_min: int = Field(default=DEFAULT_LIMITS.gzip_bytes_min, ge=0)
    gzip_inline_bytes_max: int = Field(default=DEFAULT_LIMITS.gzip_inline_bytes_max, ge=0)
    gzip_cache_bytes_max: int = Field(default=DEFAULT_LIMITS.gzip_cache_bytes_max, ge=0)
