"""Debian's kernels: finds the packages of a version, and makes of them vmlinuz, config and a disk
of modules.

Nothing is installed: the packages are unpacked. Debian has shipped them in two shapes, which end in
the same files: linux-image-V alone (to 6.18), and linux-base-V, linux-modules-V with linux-binary-V
(from 6.19; linux-image-V is then empty). The mirror keeps some releases in part only (6.19 to 7.1
without their modules): those are passed over. Cloud builds are preferred: they are smaller and boot
faster.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .apt import Apt, unpack
from .cache import Cache, recipe_hash
from .errors import LabError
from .report import call, progress
from .tools import Tools

DEFAULT = "7.3"
FORMAT = "2"  # raise it when what is made of the packages changes
# What the initramfs loads before it can mount the root: the root lies on a persistent-memory
# device, the modules on another (see qemu.py). Whatever of these a kernel has built in is skipped.
BOOT_MODULES = ["virtio_pci", "virtio_console", "virtio_blk", "nfit", "nd_btt", "nd_pmem", "ext4"]
_NAME = re.compile(
    r"^linux-(?:image|binary|modules|base)(?:-unsigned)?-"
    r"(?P<version>\d+\.\d+(?:\.\d+)?[^-]*)-(?P<flavour>cloud-amd64|amd64)(?:-unsigned)?$"
)


@dataclass(frozen=True)
class Kernel:
    """A kernel that is ready to boot."""

    release: str  # what `uname -r` says, e.g. 7.3.4+deb13-cloud-amd64
    vmlinuz: Path
    config: Path
    modules_image: Path  # ext4, holds /usr/lib/modules/RELEASE
    boot_modules: list[Path]  # unpacked .ko files in the order in which they load


def version_key(release: str) -> tuple[int, ...]:
    """Sorts 6.9 before 6.16: the numbers in front, as numbers."""
    front = re.match(r"[\d.]+", release)
    return tuple(int(n) for n in front[0].strip(".").split(".")) if front else ()


def matches(wanted: str, release: str) -> bool:
    """Does `7.3`, `7.3.4` or the full release name mean this release?"""
    return release == wanted or re.match(re.escape(wanted) + r"(?![\d])", release) is not None


def pick_release(wanted: str, names: list[str]) -> tuple[str, list[str]]:
    """The newest release that matches among package names, and the packages to unpack for it."""
    by_release: dict[str, list[str]] = {}
    for name in names:
        found = _NAME.match(name)
        if found:
            by_release.setdefault(f"{found['version']}-{found['flavour']}", []).append(name)
    whole = {
        release: packages
        for release, names in by_release.items()
        if (packages := packages_of(release, names))
    }
    fitting = [release for release in whole if matches(wanted, release)]
    if not fitting:
        have = sorted(
            {".".join(map(str, version_key(release)[:2])) for release in whole}, key=version_key
        )
        partial = [release for release in by_release if matches(wanted, release)]
        raise LabError(
            f"Debian has no kernel {wanted} here"
            + (
                f" (of {max(partial, key=version_key)} the mirror has only some packages)"
                if partial
                else ""
            )
            + f": the mirror offers {', '.join(have) or 'none'}"
        )
    release = max(fitting, key=lambda r: (version_key(r), "cloud" in r))
    return release, whole[release]


def packages_of(release: str, names: list[str]) -> list[str]:
    """Which of a release's packages hold its files, or none if some are lacking; the signed one
    where there are both.
    """
    parts = [f"linux-{part}-{release}" for part in ("base", "modules")]
    for binary in (f"linux-binary-{release}", f"linux-binary-unsigned-{release}"):
        if binary in names:
            return [*parts, binary] if set(parts) <= set(names) else []
    return [
        image
        for image in (f"linux-image-{release}", f"linux-image-{release}-unsigned")
        if image in names
    ][:1]


def entry_suffix(tools: Tools) -> str:
    """How the names of current kernel entries end."""
    return "-" + recipe_hash(FORMAT, " ".join(BOOT_MODULES), tools.folder.name)


def get_kernel(cache: Cache, wanted: str = DEFAULT, quiet: bool = False) -> Kernel:
    """A bootable kernel of the wanted version, fetched if the cache has none that matches."""
    tools = Tools(cache, quiet)
    suffix = entry_suffix(tools)
    cached = [
        folder.name.removeprefix("kernel-").removesuffix(suffix)
        for folder in cache.entries()
        if folder.name.startswith("kernel-") and folder.name.endswith(suffix)
    ]
    fitting = [release for release in cached if matches(wanted, release)]
    if fitting:
        # The newest that is here, without asking the mirror: a run must not depend on the network.
        release = max(fitting, key=version_key)
        packages: list[str] = []
    else:
        release, packages = pick_release(wanted, Apt(cache, quiet).names("linux-"))

    def build(work: Path) -> None:
        # Without packages the entry was in the cache and is damaged.
        needed = packages or pick_release(release, Apt(cache, quiet).names("linux-"))[1]
        _build(work, cache, tools, release, needed, quiet)

    folder = cache.get(f"kernel-{release}{suffix}", build, f"kernel {release}", quiet)
    names = (folder / "boot-modules.list").read_text().split()
    return Kernel(
        release,
        folder / "vmlinuz",
        folder / "config",
        folder / "modules.img",
        [folder / "boot-modules" / name for name in names],
    )


def _build(
    work: Path, cache: Cache, tools: Tools, release: str, packages: list[str], quiet: bool
) -> None:
    progress(f"fetching kernel {release}…", quiet)
    debs = Apt(cache, quiet).download(packages, work / "packages")
    tree = work / "tree"
    unpack(debs, tree)
    shutil.rmtree(work / "packages")
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")  # depmod looks in /lib/modules
    modules = tree / "usr/lib/modules" / release
    if (tree / "lib/modules" / release).is_dir() and not modules.is_dir():
        modules = tree / "lib/modules" / release
    for name, places in (
        ("vmlinuz", (tree / f"boot/vmlinuz-{release}", modules / "vmlinuz")),
        ("config", (tree / f"boot/config-{release}", modules / "config")),
    ):
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise LabError(f"the packages {' '.join(packages)} hold no {name} for {release}")
        shutil.copyfile(found, work / name)
    _unpack_kernel(work, tools)
    call([tools.path("depmod"), "-b", tree, release], what=f"depmod for {release}")
    (work / "boot-modules").mkdir()
    order = []
    for path in _load_order(modules):
        name = Path(path).name.split(".ko")[0] + ".ko"
        (work / "boot-modules" / name).write_bytes(_unpacked(modules / path, tools))
        order.append(name)
    (work / "boot-modules.list").write_text("\n".join(order) + "\n")
    (modules / "vmlinuz").unlink(missing_ok=True)
    shutil.copyfile(work / "config", modules / "config")
    for link in ("build", "source"):
        (modules / link).unlink(missing_ok=True)
    megabytes = sum(p.stat().st_size for p in modules.rglob("*") if p.is_file()) // 1_000_000
    # Persistent memory comes in sections of 128 MiB.
    size = (megabytes + 40 + 127) // 128 * 128
    call(
        [
            tools.path("mke2fs"),
            "-q",
            "-t",
            "ext4",
            "-m",
            "0",
            "-O",
            "^has_journal",
            "-E",
            "root_owner=0:0",
            "-d",
            modules,
            work / "modules.img",
            f"{size}M",
        ],
        what=f"mke2fs for the modules of {release}",
    )
    shutil.rmtree(tree)


def _load_order(modules: Path) -> list[str]:
    """The boot modules and what they depend on, each after what it needs."""
    depends: dict[str, tuple[str, list[str]]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, words = line.partition(":")
        depends[_module_name(path)] = (path, words.split())
    order: list[str] = []
    for name in BOOT_MODULES:
        if name not in depends:
            continue  # built in
        path, needs = depends[name]
        for item in (*reversed(needs), path):
            if item not in order:
                order.append(item)
    return order


def _module_name(path: str) -> str:
    return Path(path).name.split(".ko")[0].replace("-", "_")


_SIGNATURE_END = b"~Module signature appended~\n"


def _unpacked(path: Path, tools: Tools) -> bytes:
    """A boot module's bytes, plain and without its signature.

    The initramfs' insmod wants them plain. Checking a signature costs 0.3 s of emulated time each,
    at every boot; without one the kernel marks itself as tainted (E) and works as ever.
    """
    data = path.read_bytes()
    if path.suffix == ".xz":
        import lzma  # some minimal Pythons lack it, and only modules packed so need it

        data = lzma.decompress(data)
    elif path.suffix == ".gz":
        import gzip

        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = _zstd(tools, data)
    if data.endswith(_SIGNATURE_END):
        # struct module_signature ends with the length of the signature, which lies before it.
        head = len(data) - len(_SIGNATURE_END) - 12
        data = data[: head - int.from_bytes(data[head + 8 : head + 12], "big")]
    return data


def _zstd(tools: Tools, data: bytes) -> bytes:
    """Unpack one zstd frame; what follows it in `data` is no error."""
    return subprocess.run(
        [tools.path("zstd"), "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout


def _unpack_kernel(work: Path, tools: Tools) -> None:
    """Replace vmlinuz by the ELF file packed in it, if it can be started directly (PVH).

    That saves unpacking it under emulation at every boot (1.5 s), and the kernel lies at the same
    addresses each time, which measurements like. A kernel that cannot be taken apart is booted as
    it is.
    """
    image = (work / "vmlinuz").read_bytes()
    if "CONFIG_PVH=y" not in (work / "config").read_text():
        return
    # The boot header says where the payload lies (Documentation/arch/x86/boot.rst: setup_sects,
    # payload_offset).
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (image[0x1F1] + 1) * 512 + offset
    payload = image[start : start + length]
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        elf = _zstd(tools, payload)
    elif payload.startswith(b"\xfd7zXZ"):
        import lzma

        elf = lzma.LZMADecompressor().decompress(payload)
    else:
        return
    if elf.startswith(b"\x7fELF"):
        (work / "vmlinuz").write_bytes(elf)
