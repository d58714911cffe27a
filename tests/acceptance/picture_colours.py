"""Prints the share of the pixels of a picture that have each colour, as JSON. Runs in a process that has Pillow:

`python -m tests.acceptance.picture_colours FILE RRGGBB…`.
"""

import json
import sys


def main(file: str, *colours: str) -> None:
    from PIL import Image

    with Image.open(file) as picture:
        counts = {colour: count for count, colour in picture.convert("RGB").getcolors(2**24)}
        pixels = picture.width * picture.height
    print(json.dumps([counts.get(tuple(bytes.fromhex(colour)), 0) / pixels for colour in colours]))


if __name__ == "__main__":
    main(*sys.argv[1:])
