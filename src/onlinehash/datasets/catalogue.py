"""The sets that papers on hashing use: which files they have, where to get them, and whether they are in a folder.

Nothing is ever downloaded. Checksums are there where one is published; other files are checked by their sizes and
headers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from onlinehash.datasets import ann_benchmarks, cifar, idx, labelme, photo_tourism, tiny_images, vecs
from onlinehash.datasets.dataset import Dataset
from onlinehash.errors import InvalidInput

#: The folder of the sets, where none is given: this variable, or else `data` here.
FOLDER_VARIABLE = "ONLINEHASH_DATA"


@dataclass(frozen=True)
class KnownFile:
    """A file's name; its size and MD5 where they are known; the same file in another form, if there is one."""

    name: str
    size: int | None = None
    md5: str | None = None
    or_else: KnownFile | None = None


@dataclass(frozen=True)
class KnownSet:
    """A set: what it is, where to get it, in which of the places in a folder its files may be, and how to read it.

    `more_files` names those that only the others tell; `look` reads as much as it takes to know that a set without
    checksums is sound.
    """

    name: str
    title: str
    address: str
    places: tuple[str, ...]
    files: tuple[KnownFile, ...]
    read: Callable[[Path, int | None], Dataset]
    look: Callable[[Path], object] | None = None
    archive: KnownFile | None = None
    more_files: Callable[[Path], tuple[KnownFile, ...]] = lambda place: ()

    def place(self, folder: Path) -> Path | None:
        """Where in a folder its files are, or at least one of them."""
        places = [folder / place for place in self.places]
        return next((place for place in places if any(find(place, file) for file in self.files)), None)

    def load(self, folder: Path, rows: int | None = None) -> Dataset:
        """The set, or its first `rows`."""
        place = self.place(folder)
        if place is None:
            names = ", ".join(file.name for file in self.files[:3]) + (", ..." if len(self.files) > 3 else "")
            raise InvalidInput(
                f"{self.name} ({names}) is not in {folder / self.places[0]}; get it from {self.address}."
            )
        return replace(self.read(place, rows), name=self.name)


def find(place: Path, file: KnownFile) -> tuple[Path, KnownFile] | None:
    """The file, or the same file in its other form."""
    if (place / file.name).is_file():
        return place / file.name, file
    return None if file.or_else is None else find(place, file.or_else)


def default_folder() -> Path:
    """The default folder of data sets."""
    return Path(os.environ.get(FOLDER_VARIABLE) or "data")


def _photo_tourism(short_name: str, what: str, archive: str, md5: str) -> KnownSet:
    def bitmaps(place: Path) -> tuple[KnownFile, ...]:
        n = len(photo_tourism.read_points(place))
        return tuple(
            KnownFile(photo_tourism.bitmap_path(place, k).name) for k in range(-(-n // photo_tourism.PER_BITMAP))
        )

    name = f"photo-tourism-{short_name}"
    return KnownSet(
        name=name,
        title=f"Photo Tourism, {what}: grey patches of 64 x 64, GIST computed",
        address="http://matthewalunbrown.com/patchdata/patchdata.html",
        places=(name, archive, f"photo-tourism/{archive}"),
        files=(KnownFile("info.txt"),),
        read=lambda place, rows: photo_tourism.read_set(place, name, rows),
        look=photo_tourism.read_patches,
        archive=KnownFile(f"{archive}.zip", md5=md5),
        more_files=bitmaps,
    )


def _texmex(name: str, prefix: str, title: str, sizes: tuple[int, int, int, int]) -> KnownSet:
    parts = ("base.fvecs", "learn.fvecs", "query.fvecs", "groundtruth.ivecs")
    return KnownSet(
        name=name,
        title=title,
        address="http://corpus-texmex.irisa.fr/",
        places=(name, prefix, "."),
        files=tuple(KnownFile(f"{prefix}_{part}", size) for part, size in zip(parts, sizes, strict=True)),
        read=lambda place, rows: vecs.read_task(place, prefix, rows),
        look=partial(vecs.read_task, prefix=prefix),
    )


def _mnist(name: str, title: str, address: str, places: tuple[str, ...], sums: tuple[str, str, str, str]) -> KnownSet:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    sizes = (47_040_016, 60_008, 7_840_016, 10_008)
    files = tuple(
        KnownFile(f"{part}-ubyte.gz", md5=md5, or_else=KnownFile(f"{part}-ubyte", size))
        for part, size, md5 in zip(parts, sizes, sums, strict=True)
    )
    return KnownSet(
        name,
        title,
        address,
        places,
        files,
        read=lambda place, rows: idx.read_mnist(place, name),
        look=partial(idx.read_mnist, name=name),
    )


CIFAR_SUMS = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)

_SETS = (
    _photo_tourism("notredame", "Notre Dame", "notredame", "509eda8535847b8c0a90bbb210c83484"),
    _photo_tourism("halfdome", "Half Dome", "yosemite", "533b2e8eb7ede31be40abc317b2fd4f0"),
    _photo_tourism("liberty", "Statue of Liberty", "liberty", "fdd9152f138ea5ef2091746689176414"),
    KnownSet(
        name="labelme-22k",
        title="22K LabelMe: 22,019 photographs as GIST of 512",
        address="http://cs.nyu.edu/~fergus/research/tfw_cvpr08_code.zip",
        places=("labelme-22k", "labelme", "."),
        files=(KnownFile("LabelMe_gist.mat"),),
        read=lambda place, rows: labelme.read_set(place / "LabelMe_gist.mat"),
        look=lambda place: labelme.read_set(place / "LabelMe_gist.mat"),
    ),
    _texmex(
        "gist1m",
        "gist",
        "GIST1M: a million colour GIST descriptors of 960, 1,000 queries and their 100 nearest",
        (3_844_000_000, 1_922_000_000, 3_844_000, 404_000),
    ),
    _texmex(
        "sift1m",
        "sift",
        "SIFT1M: a million SIFT descriptors of 128, 10,000 queries and their 100 nearest",
        (516_000_000, 51_600_000, 5_160_000, 4_040_000),
    ),
    KnownSet(
        name="cifar-10",
        title="CIFAR-10: 60,000 photographs of 32 x 32 in ten classes, as pixels",
        address="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        places=("cifar-10", "cifar-10-batches-py", "cifar-10/cifar-10-batches-py", "."),
        files=tuple(KnownFile(name, md5=md5) for name, md5 in zip(cifar.BATCHES, CIFAR_SUMS, strict=True)),
        read=lambda place, rows: cifar.as_set(cifar.read_images(place)),
        archive=KnownFile("cifar-10-python.tar.gz", md5="c58f30108f718f92721af3b95e74349a"),
    ),
    KnownSet(
        name="tiny-images-80m",
        title="80 Million Tiny Images: photographs of 32 x 32, as pixels",
        address="http://groups.csail.mit.edu/vision/TinyImages/ (withdrawn by its authors in 2020)",
        places=("tiny-images-80m", "tiny-images", "."),
        files=(KnownFile("tiny_images.bin", tiny_images.N_IMAGES * tiny_images.IMAGE_BYTES),),
        read=lambda place, rows: tiny_images.read_set(place / "tiny_images.bin", rows),
        look=lambda place: tiny_images.TinyImages(place / "tiny_images.bin"),
    ),
    _mnist(
        "mnist",
        "MNIST: 70,000 handwritten digits of 28 x 28, as pixels",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ("mnist", "MNIST/raw", "."),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    _mnist(
        "fashion-mnist",
        "Fashion-MNIST: 70,000 pictures of clothes of 28 x 28, as pixels",
        "https://github.com/zalandoresearch/fashion-mnist",
        ("fashion-mnist", "FashionMNIST/raw"),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    KnownSet(
        name="fashion-mnist-784-euclidean",
        title="Fashion-MNIST as ann-benchmarks has it, with queries and their 100 nearest",
        address="http://ann-benchmarks.com/fashion-mnist-784-euclidean.hdf5",
        places=("ann-benchmarks", "."),
        files=(KnownFile("fashion-mnist-784-euclidean.hdf5"),),
        read=lambda place, rows: ann_benchmarks.read_set(place / "fashion-mnist-784-euclidean.hdf5", rows),
        look=lambda place: ann_benchmarks.read_set(place / "fashion-mnist-784-euclidean.hdf5"),
    ),
)

#: The sets by name.
KNOWN = {known.name: known for known in _SETS}
