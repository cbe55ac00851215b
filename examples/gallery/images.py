"""Images: a photograph in many sizes and styles, each rendered by a task with Pillow.

The photograph (Grace Hopper, US Navy, public domain) is part of matplotlib. Its file is sent once for all tasks.
"""

from __future__ import annotations

import hashlib
import io

from matplotlib.cbook import get_sample_data
from PIL import Image, ImageFilter, ImageOps
from side_by_side import arguments, side_by_side

from scaler import Client

STYLES = {
    "plain": lambda image: image,
    "grey": ImageOps.grayscale,
    "sharp": lambda image: image.filter(ImageFilter.UnsharpMask(radius=3, percent=150)),
    "soft": lambda image: image.filter(ImageFilter.GaussianBlur(radius=4)),
    "edges": lambda image: ImageOps.grayscale(image).filter(ImageFilter.FIND_EDGES),
    "posters": lambda image: ImageOps.posterize(image, bits=2),
}


def render(photograph: bytes, width: int, style: str) -> bytes:
    """Return the photograph in this width and style, as a PNG file: the task."""
    image = Image.open(io.BytesIO(photograph)).convert("RGB")
    height = round(image.height * width / image.width)
    styled = STYLES[style](image.resize((width, height), Image.Resampling.LANCZOS))
    file = io.BytesIO()
    styled.save(file, "png", optimize=True)
    return file.getvalue()


def on_cluster(client: Client, photograph: bytes, orders: list[tuple[int, str]]) -> list[bytes]:
    """Render all images on the cluster, with the photograph as an object."""
    reference = client.send_object(photograph)
    return client.map(render, [(reference, width, style) for width, style in orders])


def main() -> None:
    """Render the photograph in all styles."""
    options = arguments("Render a photograph in many sizes and styles.", 4, "sizes of each of six styles")
    with open(get_sample_data("grace_hopper.jpg", asfileobj=False), "rb") as file:  # noqa: PTH123
        photograph = file.read()
    orders = [(120 + 1000 * number // options.size, style) for number in range(options.size) for style in STYLES]

    files, verdict = side_by_side(
        lambda: [render(photograph, width, style) for width, style in orders],
        lambda client: on_cluster(client, photograph, orders),
        options.workers,
    )

    print(f"{len(files)} images, {sum(map(len, files)) / 1e6:.1f} MB, each the same bytes in both runs")
    print(f"all together: sha256 {hashlib.sha256(b''.join(files)).hexdigest()[:16]}")
    print(verdict)


if __name__ == "__main__":
    main()
