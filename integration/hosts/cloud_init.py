"""User data, taken apart as cloud-init does it (cloud-init documentation, "User data formats")."""

from __future__ import annotations

import email
from email.message import Message
from pathlib import Path

_FOLDERS = {"text/cloud-boothook": "boothooks", "text/x-shellscript": "scripts"}


def parts(user_data: bytes) -> list[tuple[str, str, bytes]]:
    """Of each part its type, its file's name and its content. A ValueError says what cloud-init could not read."""
    message: Message = email.message_from_bytes(user_data)
    if message.get_content_type() != "multipart/mixed" or message.defects:
        raise ValueError(f"the user data is no whole MIME document of several parts: {message.defects or message.get_content_type()}")
    found = []
    for number, part in enumerate(message.get_payload(), 1):
        if part.defects or part.get_content_type() not in _FOLDERS:
            raise ValueError(f"part {number} of the user data cannot be run: {part.defects or part.get_content_type()}")
        found.append((part.get_content_type(), part.get_filename() or f"part-{number:03}", part.get_payload(decode=True)))
    return found


def install(user_data: bytes, root: Path) -> None:
    """Puts the parts where a boot finds them."""
    for kind, name, content in parts(user_data):
        path = root / "var/lib/cloud/instance" / _FOLDERS[kind] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
