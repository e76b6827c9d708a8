"""Images and files as model providers take them."""

from runward.domain.run.items import MediaPart


def data_url(part: MediaPart, default_type: str) -> str:
    """Return the data of an image or file as a data URL (RFC 2397)."""
    return f"data:{part.media_type or default_type};base64,{part.data or ''}"
