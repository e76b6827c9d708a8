"""AWS KMS as a process of its own: the server of moto, which encrypts with the keys it creates."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import subprocess
import sys
from typing import Any

import boto3

from tests.support.services.service import free_port

REGION = "eu-central-1"


class KmsServer:
    """`environment`: the variables with which boto3 uses this server."""

    def __init__(self) -> None:
        port = free_port()
        self.environment = {
            "AWS_ENDPOINT_URL_KMS": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        assert any("Running on" in line for line in self._process.stderr)
        self.client: Any = boto3.client(
            "kms",
            region_name=REGION,
            endpoint_url=self.environment["AWS_ENDPOINT_URL_KMS"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def create_key(self) -> str:
        """Return the ARN of a new key."""
        return self.client.create_key()["KeyMetadata"]["Arn"]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
