"""How types for openapi.json are read: other fields there are none, and texts under fields are
their descriptions. A field that is NotRequired is left out where there is nothing to say."""

from typing import Final

from pydantic import ConfigDict
from pydantic.config import with_config

documented: Final = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
