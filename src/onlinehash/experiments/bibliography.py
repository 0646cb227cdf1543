"""What to cite: BibTeX for each method. Only what we are sure of is in it: pages and numbers are mostly left out."""

from __future__ import annotations

from dataclasses import dataclass

from onlinehash.errors import UnknownMethod
from onlinehash.learners import registry


@dataclass(frozen=True)
class Entry:
    """One publication; `where` has the fields that say where it appeared."""

    kind: str
    key: str
    authors: tuple[str, ...]
    title: str
    year: int | None
    where: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        fields = [("title", f"{{{self.title}}}"), *self.where]
        if self.authors:
            fields.insert(0, ("author", " and ".join(self.authors)))
        if self.year is not None:
            fields.append(("year", str(self.year)))
        body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields)
        return f"@{self.kind}{{{self.key},\n{body}}}"


def _talk(key: str, authors: str, title: str, year: int, conference: str, *more: tuple[str, str]) -> Entry:
    return Entry("inproceedings", key, tuple(authors.split("; ")), title, year, (("booktitle", conference), *more))


def _article(key: str, authors: str, title: str, year: int, journal: str, *more: tuple[str, str]) -> Entry:
    return Entry("article", key, tuple(authors.split("; ")), title, year, (("journal", journal), *more))


CVPR = "IEEE Conference on Computer Vision and Pattern Recognition (CVPR)"
ICCV = "IEEE International Conference on Computer Vision (ICCV)"

#: The paper whose experiments are repeated here.
PAPER = _article(
    "huang2017online",
    "Huang, Long-Kai; Yang, Qiang; Zheng, Wei-Shi",
    "Online Hashing",
    2017,
    "IEEE Transactions on Neural Networks and Learning Systems",
    ("doi", "10.1109/TNNLS.2017.2689242"),
)

#: For what nobody has published elsewhere.
SOFTWARE = Entry(
    "misc",
    "onlinehash",
    (),
    "onlinehash: learn short binary codes from a stream of similar and dissimilar pairs",
    None,
    (("howpublished", "Python package"),),
)

ENTRIES: dict[str, Entry] = {
    "BlendedPairHashing": SOFTWARE,
    "SmoothPairHashing": SOFTWARE,
    "OnlineHashing": PAPER,
    "MultiModelOnlineHashing": PAPER,
    "MiniBatchOnlineHashing": SOFTWARE,
    "MinimalLossHashing": _talk(
        "norouzi2011minimal",
        "Norouzi, Mohammad; Fleet, David J.",
        "Minimal Loss Hashing for Compact Binary Codes",
        2011,
        "Proceedings of the 28th International Conference on Machine Learning (ICML)",
    ),
    "AdaptiveHashing": _talk(
        "cakir2015adaptive",
        "Cakir, Fatih; Sclaroff, Stan",
        "Adaptive Hashing for Fast Similarity Search",
        2015,
        ICCV,
    ),
    "LegoLSH": _talk(
        "jain2008online",
        "Jain, Prateek; Kulis, Brian; Dhillon, Inderjit S.; Grauman, Kristen",
        "Online Metric Learning and Fast Similarity Search",
        2008,
        "Advances in Neural Information Processing Systems 21",
    ),
    "HadamardHashing": _talk(
        "lin2018supervised",
        "Lin, Mingbao; Ji, Rongrong; Liu, Hong; Wu, Yongjian",
        "Supervised Online Hashing via Hadamard Codebook Learning",
        2018,
        "ACM International Conference on Multimedia",
    ),
    "HadamardMatchingHashing": _article(
        "lin2020hadamard",
        "Lin, Mingbao; others",
        "Hadamard Matrix Guided Online Hashing",
        2020,
        "International Journal of Computer Vision",
        ("volume", "128"),
        ("doi", "10.1007/s11263-020-01332-z"),
    ),
    "OnlineSupervisedHashing": _article(
        "cakir2017online",
        "Cakir, Fatih; Bargal, Sarah Adel; Sclaroff, Stan",
        "Online supervised hashing",
        2017,
        "Computer Vision and Image Understanding",
        ("volume", "156"),
    ),
    "MutualInformationHashing": _talk(
        "cakir2017mihash",
        "Cakir, Fatih; He, Kun; Bargal, Sarah Adel; Sclaroff, Stan",
        "MIHash: Online Hashing with Mutual Information",
        2017,
        ICCV,
    ),
    "BalancedSimilarityHashing": _talk(
        "lin2019towards",
        "Lin, Mingbao; Ji, Rongrong; Liu, Hong; Sun, Xiaoshuai; Wu, Yongjian; Wu, Yunsheng",
        "Towards Optimal Discrete Online Hashing with Balanced Similarity",
        2019,
        "AAAI Conference on Artificial Intelligence",
    ),
    "ProjectedCodesHashing": _talk(
        "weng2020online",
        "Weng, Zhenyu; Zhu, Yuesheng",
        "Online Hashing with Efficient Updating of Binary Codes",
        2020,
        "AAAI Conference on Artificial Intelligence",
    ),
    "SimilarityLearningHashing": _article(
        "weng2021online",
        "Weng, Zhenyu; Zhu, Yuesheng",
        "Online Hashing with Similarity Learning",
        2021,
        "arXiv preprint arXiv:2108.02560",
    ),
    "LSH": _talk(
        "charikar2002similarity",
        "Charikar, Moses S.",
        "Similarity estimation techniques from rounding algorithms",
        2002,
        "ACM Symposium on Theory of Computing (STOC)",
    ),
    "KernelLSH": _article(
        "kulis2012kernelized",
        "Kulis, Brian; Grauman, Kristen",
        "Kernelized locality-sensitive hashing",
        2012,
        "IEEE Transactions on Pattern Analysis and Machine Intelligence",
        ("volume", "34"),
        ("number", "6"),
    ),
    "OnlineSketchingHashing": _talk(
        "leng2015online",
        "Leng, Cong; Wu, Jiaxiang; Cheng, Jian; Bai, Xiao; Lu, Hanqing",
        "Online sketching hashing",
        2015,
        CVPR,
    ),
    "FastSketchingHashing": _talk(
        "chen2017frosh",
        "Chen, Xixian; King, Irwin; Lyu, Michael R.",
        "FROSH: FasteR Online Sketching Hashing",
        2017,
        "Conference on Uncertainty in Artificial Intelligence (UAI)",
    ),
    "StreamSpectralHashing": Entry(
        "misc",
        "ghashami2015binary",
        ("Ghashami, Mina", "Abdullah, Amirali"),
        "Binary coding in stream",
        2015,
        (("eprint", "1503.06271"), ("archiveprefix", "arXiv")),
    ),
    "IterativeQuantization": _talk(
        "gong2011iterative",
        "Gong, Yunchao; Lazebnik, Svetlana",
        "Iterative Quantization: A Procrustean Approach to Learning Binary Codes",
        2011,
        CVPR,
    ),
    "KernelSupervisedHashing": _talk(
        "liu2012supervised",
        "Liu, Wei; Wang, Jun; Ji, Rongrong; Jiang, Yu-Gang; Chang, Shih-Fu",
        "Supervised Hashing with Kernels",
        2012,
        CVPR,
    ),
    "SupervisedDiscreteHashing": _talk(
        "shen2015supervised",
        "Shen, Fumin; Shen, Chunhua; Liu, Wei; Shen, Heng Tao",
        "Supervised Discrete Hashing",
        2015,
        CVPR,
    ),
    "FastSupervisedHashing": _talk(
        "lin2014fast",
        "Lin, Guosheng; Shen, Chunhua; Shi, Qinfeng; van den Hengel, Anton; Suter, David",
        "Fast Supervised Hashing with Decision Trees for High-Dimensional Data",
        2014,
        CVPR,
    ),
}


def bibtex(method_name: str) -> str:
    """The entry of a method, by its name or alias; for methods of other packages we know none."""
    name = registry.find(method_name).__name__
    if name not in ENTRIES:
        raise UnknownMethod(
            f"no citation is known for {method_name!r}, which is not a method of onlinehash; ask its authors."
        )
    return str(ENTRIES[name])


def all_bibtex() -> str:
    """Every entry once, the paper first, each under a comment with the methods that come from it."""
    methods: dict[Entry, list[str]] = {PAPER: []}
    for name, entry in ENTRIES.items():
        methods.setdefault(entry, []).append(name)
    return "\n\n".join(f"% {', '.join(names)}\n{entry}" for entry, names in methods.items())
