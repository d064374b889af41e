"""Sorts pictures of Debian packages (icons, clip art, wallpapers, portraits) into class folders.

  python tests/benchmarks/debian_pictures.py --output FOLDER --hold-out 20

Fetches the packages with `apt-get download` and unpacks them with `dpkg-deb -x` into a temporary folder. It installs
nothing. It does not change the content of the files: transparency, palettes and grey pictures remain. Writes
FOLDER/CLASS/NAME--PACKAGE.png, or with --hold-out FOLDER/train/CLASS and FOLDER/test/CLASS. Prints classes, pictures,
packages and their versions.

The same picture must not be in both the training set and the test set of a random split. Therefore:
- The largest file of a name and package is kept. Symbolic links are skipped.
- Equal bytes and near-duplicates (average hash of 16 x 16 grey pixels on white) are skipped. The first class of RULES
  keeps the picture.
- --hold-out moves pictures with equal names (of several themes, or with another number) to the same side.

The result depends only on the packages' versions. Requires Debian 12 and a Python with Pillow and NumPy.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

HASH_SIDE = 16  # pixels; an average hash has 256 bits
LEAST_DISTANCE = 13  # bits; if two hashes differ in fewer bits, the later picture is a near-duplicate
LARGEST_CLASS = 600  # pictures; limits the imbalance of the classes
LEAST_SIDE = 22  # pixels; smaller pictures are skipped
MOST_PIXELS = 50_000_000  # far below the limits of Carillon and Pillow, so that both read every picture
Image.MAX_IMAGE_PIXELS = None  # switches off Pillow's warning about large pictures: MOST_PIXELS is the limit

# For each icon theme, this table has the folder of the variant to read.
THEMES = {
    "oxygen-icon-theme": "usr/share/icons/oxygen/base",
    "gnome-icon-theme": "usr/share/icons/gnome",
    "mate-icon-theme": "usr/share/icons/mate",
    "tango-icon-theme": "usr/share/icons/Tango",
    "lxde-icon-theme": "usr/share/icons/nuoveXT2",
    "elementary-xfce-icon-theme": "usr/share/icons/elementary-xfce",
    "obsidian-icon-theme": "usr/share/icons/Obsidian",
}
CLIP_ART = "usr/share/openclipart/png"
STAMPS = "usr/share/tuxpaint/stamps"


def themed(context):
    """Returns rules for one context (a folder's name, as a pattern) in all icon themes."""
    return [(package, f"{folder}/(.*/)?{context}/.*") for package, folder in THEMES.items()]


def clip_art(openclipart, tuxpaint=None):
    rules = [("openclipart-png", f"{CLIP_ART}/({openclipart})/.*")]
    return rules + ([("tuxpaint-stamps-default", f"{STAMPS}/({tuxpaint})/.*")] if tuxpaint else [])


# Pairs (package, pattern of the whole path) for each class. If several classes match a picture, the picture belongs to
# the first of them.
RULES = {
    "wallpapers": [
        ("lomiri-wallpapers-16.04", "usr/share/backgrounds/.*"),
        ("lomiri-wallpapers-20.04", "usr/share/backgrounds/.*"),
        ("mate-backgrounds", "usr/share/backgrounds/.*"),
        ("plasma-workspace-wallpapers", "usr/share/wallpapers/.*/images.*"),
        ("ukui-wallpapers", "usr/share/backgrounds/.*"),
    ],
    "portraits": [("wesnoth-1.16-data", "usr/share/games/wesnoth/.*/portraits/.*")],
    "terrain": [("wesnoth-1.16-data", "usr/share/games/wesnoth/.*/core/images/terrain/.*")],
    "flags": [("iso-flags-png-320x240", ".*"), *clip_art("signs_and_symbols/flags")],
    "animals": clip_art("animals", "animals"),
    "food": clip_art("food", "food"),
    "plants": clip_art("plants", "plants"),
    "vehicles": clip_art("transportation/(?!roadsigns).*", "vehicles|military/vehicles"),
    "buildings": clip_art("buildings/(?!furniture).*", "town/(?!flags|roadsigns).*"),
    "people": clip_art("people/(?!smilies|stickmen).*", "people"),
    "smileys": [*themed("emotes"), *clip_art("people/smilies", "symbols/faces")],
    "devices": themed("devices"),
    "places": themed("places"),
    "documents": themed("(mimetypes|mimes)"),
    "applications": themed("apps"),
    "actions": themed("actions"),
}


def fetch(packages, folder):
    """Downloads the packages that the folder lacks. Returns {package: path of its archive}."""
    folder.mkdir(parents=True, exist_ok=True)
    archives = {}
    for package in packages:
        if not list(folder.glob(f"{package}_*.deb")):
            done = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                reason = done.stderr.strip()
                sys.exit(f"debian_pictures: apt-get download {package} failed (run apt-get update): {reason}")
        archives[package] = max(folder.glob(f"{package}_*.deb"))
    return archives


def grey_on_white(path):
    """Returns (number of pixels, [HASH_SIDE, HASH_SIDE] float grey values) of a picture on white. Returns None if the
    file is unreadable, too small or too large."""
    try:
        with Image.open(path) as image:
            pixels = image.width * image.height
            if min(image.size) < LEAST_SIDE or pixels > MOST_PIXELS:
                return None
            image.draft("RGB", (4 * HASH_SIDE, 4 * HASH_SIDE))
            image = image.convert("RGBA")
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return None
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    grey = white.convert("L").resize((HASH_SIDE, HASH_SIDE), Image.Resampling.BOX)
    return pixels, np.asarray(grey, np.float32)


def name_of(path, folder):
    """Returns a file's name without its suffix. If the name is only a size (1920x1080.png), returns the name of the
    picture's folder."""
    if re.fullmatch(r"\d+x\d+", path.stem):
        path = path.relative_to(folder).parents[2]
    return re.sub(r"[^\w.+-]", "_", path.stem.lower())


def family(name):
    """Returns the name without the number at its end. Pictures for which the result is equal are a family: `split` puts
    them on the same side."""
    return re.sub(r"[-_ .]?\d+(px|x\d+)?$", "", name)


def candidates(folders):
    """Yields (class, name, package, path, grey values), sorted. For each class, package and name, yields only the
    largest file."""
    for label, rules in RULES.items():
        found = {}
        for package, pattern in rules:
            folder = folders[package]
            for path in sorted(folder.rglob("*")):
                if path.is_symlink() or not path.is_file() or path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
                    continue
                if not re.fullmatch(pattern, str(path.relative_to(folder))):
                    continue
                if read := grey_on_white(path):
                    key = name_of(path, folder), package
                    if key not in found or found[key][0] < read[0]:
                        found[key] = (read[0], path, read[1])
        for (name, package), (_, path, grey) in sorted(found.items()):
            yield label, name, package, path, grey


def select(pictures):
    """Returns [(class, name, package, path)] of the pictures that are not blank, and not equal or similar to an earlier
    picture."""
    selected, digests, skipped = [], set(), {"blank": 0, "equal": 0, "near-duplicate": 0}
    hashes = np.zeros((0, HASH_SIDE * HASH_SIDE), bool)
    for label, name, package, path, grey in pictures:
        digest = hashlib.sha256(path.read_bytes()).digest()
        bits = (grey > grey.mean()).ravel()
        if np.ptp(grey) < 16:
            skipped["blank"] += 1
        elif digest in digests:
            skipped["equal"] += 1
        elif len(hashes) and (hashes != bits).sum(axis=1).min() < LEAST_DISTANCE:
            skipped["near-duplicate"] += 1
        else:
            selected.append((label, name, package, path))
            hashes = np.vstack([hashes, bits])
            digests.add(digest)
    return selected, skipped


def order(name):
    return hashlib.sha256(family(name).encode()).hexdigest()


def split(pictures, percent):
    """Returns (train, test). Moves whole families of a class to `test`, in the order of the hash of their names, until
    `test` has `percent` percent of the class."""
    pictures = sorted(pictures, key=lambda picture: (order(picture[1]), picture))
    count = round(len(pictures) * percent / 100)
    while 0 < count < len(pictures) and family(pictures[count - 1][1]) == family(pictures[count][1]):
        count += 1
    return pictures[count:], pictures[:count]


def write(pictures, folder):
    for label, name, package, path in pictures:
        target = folder / label / f"{name}--{package}{path.suffix.lower()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="new folder for the pictures")
    parser.add_argument("--hold-out", type=float, default=0, help="percent of each class in test/; 0: no train/, test/")
    parser.add_argument("--packages", type=pathlib.Path, help="folder that keeps the packages (default: none)")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"--output: {options.output} exists already")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        names = sorted({package for rules in RULES.values() for package, _ in rules})
        archives = fetch(names, options.packages or work / "packages")
        (work / "unpacked").mkdir()
        for package, archive in archives.items():
            subprocess.run(["dpkg-deb", "-x", archive, work / "unpacked" / package], check=True)
        selected, skipped = select(candidates({package: work / "unpacked" / package for package in names}))
        print("| class | pictures | of them held out | packages (pictures) |\n|---|---|---|---|")
        for label in RULES:
            pictures = sorted((p for p in selected if p[0] == label), key=lambda p: (order(p[1]), p))[:LARGEST_CLASS]
            train, test = split(pictures, options.hold_out)
            write(train, options.output / "train" if options.hold_out else options.output)
            write(test, options.output / "test")
            used = {package: sum(p[2] == package for p in pictures) for package in sorted({p[2] for p in pictures})}
            cells = ", ".join(f"{package} ({count})" for package, count in used.items())
            print(f"| {label} | {len(pictures)} | {len(test)} | {cells} |")
        print("\nSkipped: " + ", ".join(f"{count} {reason}" for reason, count in skipped.items()))
        print("Packages: " + ", ".join(archive.stem for archive in archives.values()))


if __name__ == "__main__":
    main()
